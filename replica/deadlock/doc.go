// Package deadlock finds sessions that wait for each other's holds in a cycle.
// Each waits for a lock that the next one holds; the last one waits for the
// first.
//
// The rules are those by which the state grants locks. A wait for an exclusive
// lock needs all holds of the lock released. So does each wait behind it. A wait
// to share a lock otherwise needs an exclusive hold released, or one hold of a
// full semaphore; in that case there is a cycle only if all holders wait in
// turn. A lock-delay ends by itself.
//
// A cycle need not be a deadlock. It is one if each session keeps its hold
// until it gets the other lock. Only the programs know: a leader that also
// waits for another role gives up its hold by itself.
package deadlock
