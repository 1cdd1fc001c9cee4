// Package deadlock finds sessions that wait for each other in a circle: each of them
// waits for a lock that the next one holds, or has to have before it, and the last one
// for the first. None of them gets on until one gives up or is ended.
//
// What stands in a waiter's way is decided as the state grants locks: who wants a lock
// for itself waits for all its holders and for everybody ahead of it; who shares it,
// for an exclusive holder and for who wants it exclusively ahead of it. Of a full
// semaphore any holder will do, so there is a circle only where all of them wait in
// turn. A lock-delay ends by itself and is in nobody's way.
//
// A session is taken as a whole: one that waits does not release what it holds, though
// a program with several threads may. So a circle is what an operator has to look at,
// and no proof.
package deadlock
