// Package deadlock finds sessions that wait for each other in a cycle. Each
// waits for a lock that the next one holds, or must get before it; the last one
// waits for the first. They stay blocked until one gives up or is ended.
//
// The obstacles of a waiter follow the rules by which the state grants locks. A
// session that wants a lock exclusively waits for all its holders and for every
// session ahead of it. A session that wants to share it waits for an exclusive
// holder, and for sessions ahead of it that want it exclusively. In a full
// semaphore the release of any holder suffices. So there is a cycle only if
// all its holders wait in turn. A lock-delay ends by itself and is no obstacle.
//
// A session counts as a whole: the search assumes that a waiting session does
// not release what it holds, although a program with several threads may. So a
// cycle is a hint for an operator, not a proof.
package deadlock
