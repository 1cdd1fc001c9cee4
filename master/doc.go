// Package master is the term of office of a cell's master: when a replica may
// act as one, and all that a master knows beyond the replicated state.
//
// A Master runs on every replica. When its replica comes to lead, it opens an
// office (open.go): it lets everything committed before be applied, waits until
// every earlier master's lease is over, and proposes the entry that raises the
// epoch. From then on it admits commands, each under that epoch, and answers
// reads and keepalives from memory while its lease runs. When the replica ceases
// to lead, when a batch is refused, or when it hands mastership over, the office
// closes, and everything that belonged to it is dropped: deadlines of sessions,
// waiting calls, pending events, timers of lock-delays. The next office, here or
// elsewhere, starts from the replicated state.
//
// The order of steps in three places is what safety rests on; see package lease
// for why:
//
//   - a proposal's instant is read before the proposal (batches.go)
//   - a read is checked after it was made, against the lease of the very office
//     that it named (read.go)
//   - the instant that a keepalive extends from is read before the lease is
//     checked, and the answer leaves only if the check passes (keepalive.go)
package master
