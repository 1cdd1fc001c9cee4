// Command chaos runs cells of real replicas with clients and with a nemesis
// that causes faults, and checks the clients' observations. It is behind `make
// chaos`:
//
//	make chaos                                              a minute each, of 3 and of 5 replicas
//	make chaos ARGS="--duration 1h --size 5"                an hour
//	make chaos ARGS="--seed 7 --faults kill,pause,isolate"  the faults of a seed, of these kinds
//
// The seed decides the faults and the clients' choices. The operating system's
// part differs in each run, so a seed that failed may need several runs to fail
// again.
//
// # What is checked
//
//   - Every request's invocation, answer or unknown outcome against a sequential
//     model of locks, or of files and transactions, with porcupine; see package
//     history. Tokens and revisions grow over the cell, no session is gone before
//     its lease has ended, queues keep their order. A write with a key happens
//     once, however often it was sent.
//   - Keys and sessions of the door for Consul's clients at each replica, against
//     a model of keys. Every read, also a stale one, shows the state of the events
//     at its index. A blocking query that waits at a replica misses no change that
//     this replica shows; after the faults it sees every change.
//   - Watchers at every replica, by stream and by calls, and one of the SDK
//     receive the same history, without gaps or duplicates, through all faults. It
//     agrees with the answers to the clients. In it, no write comes after the
//     release of the grant that guards it.
//   - A resource that keeps the highest token it has seen never refuses a holder
//     while its lease runs; see package guard.
//   - No two holds of the SDK that exclude each other were valid at the same
//     time.
//   - The replicas' state sums agree whenever two replicas showed one for the
//     same log entry, and all agree in the end.
//   - While a majority of the replicas has healthy disks, links and processes, a
//     lock is granted within --grant-within (2 s), and no session of a client that
//     reaches a healthy replica ends. A prober acquires a fresh lock four times a
//     second; see package service. The summary shows how long grants took, for each
//     kind of fault.
//   - No replica ended unexpectedly, or logged an error, a panic or a data race.
//   - A backup is complete and has every change that was reported before it.
//   - After the faults are healed, the cell has a master, every client makes a
//     whole round, and a backup is taken. In the end no session, lock or waiter is
//     left.
//
// When one of these checks fails, the directory of the run is kept:
// history.json (one request per line, in the order of the answers), events.json
// (the watchers' events), grants.json (the prober's acquires, and the faults
// during them), a picture of each path with a problem, nemesis.log, the
// replicas' logs and data, and problems.txt, which ends with the command that
// runs the seed again.
//
// # Why a fail-over takes less than 2 s
//
// The cell runs with a heartbeat-timeout of 300 ms, and so a master-lease of
// 390 ms. A fault of the master has these consequences, one after the other, at
// most:
//
//	master     notices that a step of its own hangs, and falls silent    490 ms  1.25 × 390 ms
//	followers  campaign, in turns, after a heartbeat-timeout of silence  360 ms  two turns
//	           campaign again if votes were split, with chance           600 ms
//	successor  waits for the earlier lease, which began before that        0 ms
//
// The sum is 0.85 s, or 1.45 s after one split vote, and some milliseconds for
// votes and the entry that opens the office. A master that ends, or is cut off,
// skips the first step. The defaults (500 ms and 650 ms) would need 1.41 s, and
// 2.41 s after a split vote.
//
// # The level of the cell
//
// A run with the fault upgrade begins with the previous release. Replicas go to
// this release and back for a third of the run. Then all are upgraded, and the
// cell's level rises. Before that the cell refuses calls that need this level:
// while the door needs it, its clients do nothing for that third.
//
// # Faults that need fault points
//
// slow-sync, hung-sync, disk-full and stopped-at give orders to the fault
// points of a stoutd that is built with them (package faultpoint). With a
// --stoutd that was built without the tag faultpoints they are left out, or are
// an error if --faults names them.
package main
