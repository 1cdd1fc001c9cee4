// Command chaos runs cells of real replicas under clients and under a nemesis
// that does them harm, and checks what the clients saw. It is behind `make
// chaos`:
//
//	make chaos                                              a minute each, of 3 and of 5 replicas
//	make chaos ARGS="--duration 1h --size 5"                an hour
//	make chaos ARGS="--seed 7 --faults kill,pause,isolate"  the faults of a seed, of these kinds
//
// The seed decides the faults and the clients' choices. What the operating
// system makes of them is not the same twice, so a seed that failed may have to
// be run a few times.
//
// # What is checked
//
//   - Every request's invocation, answer or unknown outcome against a
//     sequential model of locks, or of files and transactions, with porcupine;
//     see package history. Tokens and revisions grow over the cell, no session
//     is gone before its lease has ended, queues keep their order. A write with
//     a key happens once, however often it was sent.
//   - Watchers at every replica, by stream and by calls, and one of the SDK are
//     told one and the same history, without gap or double, over all that is
//     done to the replicas. It is the history of which the answers tell, and in
//     it no write is behind the release of the grant that guards it.
//   - In the view of a resource that keeps the highest token it has seen, no
//     holder whose lease runs is refused; see package guard.
//   - No two holds of the SDK that exclude each other were good at the same
//     time.
//   - The sums of the replicas' states agree wherever two showed one of the
//     same log entry, and all agree in the end.
//   - While a majority of the replicas has healthy disks, links and processes, a
//     lock is granted within --grant-within (2 s), and no session of a client that
//     reaches a healthy replica ends. A prober acquires a fresh lock four times a
//     second; see package service. The summary has how long grants took, for each
//     kind of fault.
//   - No replica ended that was not to end, none logged an error, a panic or a data
//     race.
//   - Healed, the cell has a master, every client makes a whole round, and in
//     the end nothing is left: no session, lock or waiter.
//
// When one of these fails, the directory of the run is kept: history.json (one
// request a line, in the order of the answers), events.json (what the watchers
// were told), grants.json (the prober's acquires, and what was done meanwhile), a
// picture of each path that is not right, nemesis.log, the replicas' logs and data,
// and problems.txt, which ends with the command that runs the seed again.
//
// # Why a fail-over takes less than 2 s
//
// The cell runs with a heartbeat-timeout of 300 ms, and so a master-lease of 450 ms.
// After a fault of the master these come one after the other, at most:
//
//	master     notices that a step of its own hangs, and falls silent    560 ms  1.25 × 450 ms
//	followers  campaign after 1 to 2 heartbeat-timeouts of silence       600 ms
//	           campaign again if votes were split, with chance           600 ms
//	successor  waits for the earlier lease, which began before that        0 ms
//
// That is 1.16 s, or 1.76 s after one split vote, and some milliseconds for votes and
// the entry that opens the office. A master that ends, or is cut off, saves the first
// step. The defaults (500 ms and 750 ms) would need 1.94 s, and 2.94 s after a split
// vote.
//
// # Faults that need fault points
//
// slow-sync, hung-sync, disk-full and stopped-at give orders to the fault points of
// stoutd, which is built with them (package faultpoint). They are left out with a
// --stoutd that was built without the tag faultpoints.
package main
