// Package service judges whether a cell serves while it may be expected to.
//
// The rule: while a majority of the voting replicas has healthy disks, links and
// processes, a lock is granted within a bound at any time, and no session ends
// whose client has a path to a healthy replica. The clients of a chaos run reach
// every replica directly, so each healthy replica is such a path.
//
// A Prober acquires and releases locks, each at a path of its own, by one session
// with the default ttl. A new acquire begins four times a second, also while
// earlier ones wait. Each fault of the nemesis is a Harm, which names what it
// impairs. Judge compares the two.
//
// A replica counts as impaired until Recovery after the end of a fault: a process
// has to start, and a log to be caught up with. A majority is healthy when it has
// no impaired replica, and no impaired link between two of its replicas.
//
// A machine that is late itself excuses: Late notes when this process was woken
// much later than it asked for.
package service
