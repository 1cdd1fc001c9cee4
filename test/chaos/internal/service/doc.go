// Package service checks that a cell serves whenever it must.
//
// The rule: while a majority of the voting replicas has healthy disks, links
// and processes, a lock is granted within a bound at any time. During such a
// time, no session ends if its client has a path to a healthy replica. The
// clients of a chaos run reach every replica directly, so each healthy replica
// is such a path.
//
// A Prober acquires and releases locks, each at a separate path, in one session
// with the default ttl. A new acquire begins four times a second, even while
// earlier ones wait. Each fault of the nemesis is a Harm, which names the
// replicas and links that it impairs. Judge compares the two.
//
// A replica counts as impaired until Recovery after the end of a fault: its
// process has to start and its log to catch up. A majority is healthy when it
// has no impaired replica, and no impaired link between two of its replicas.
//
// A slow machine excuses a miss: Late records when this process was woken much
// later than it asked for.
package service
