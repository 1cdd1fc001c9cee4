// Package master is the term of office of a cell's master: when a replica may
// act as one, and everything a master knows beyond the replicated state.
//
// A Master runs on every replica. When its replica becomes leader, it opens an
// office (open.go): it waits until everything committed before is applied and
// every earlier master's lease is over, and then proposes the entry that raises
// the epoch. From then on it admits commands, each under that epoch, and
// answers reads and keepalives from memory while its lease runs. The office
// closes when the replica loses leadership, when a batch is refused, or when
// mastership is handed over. Everything that belonged to the office is dropped
// then: deadlines of sessions, waiting calls, pending events, timers of
// lock-delays. The next office, here or elsewhere, starts from the replicated
// state.
//
// Safety rests on the order of steps in three places; package lease has the
// reasons:
//
//   - the clock is read before a batch is proposed (internal/batch)
//   - a read is checked after it was made, against the lease of the office in
//     which it began (read.go), and so is every other answer, good or bad
//     (serve.go)
//   - the instant that a keepalive extends from is read before the lease is
//     checked, and the answer is sent only if the check passes (keepalive.go)
//
// # Calls
//
// Each call of the API is a value of package lockapi and has a row (rows.go).
// The row names the right that the call needs, what the audit log records of
// it, and the method that serves it. Do (calls.go) finds the row.
// CONTRIBUTING.md describes how to add a call.
//
// # What an office is made of
//
// Each of these types has a file of its name:
//
//	proposer     answers from memory what changes nothing; proposes the rest
//	endings      queues the ends of sessions and the deletions of directories
//	turns        lets writers of one file by compare-and-set take turns
//	sessions     each session's lease, events and waiting keepalives
//	waiters      the acquires under way, by handle
//	delays       the lock-delays in force
//	deadlines    when to check a session, a delay or an orphaned wait
//
// Package internal/batch joins proposed commands into log entries. Package
// internal/quota compares the quotas with the state and with what calls under
// way may add. Package internal/rights decides what a caller may do, and package
// internal/members changes the members of the cell.
//
// A call under way is a value of its own (acquire, keepalive). It reads these,
// waits to be woken, and reads again: a wakeup carries no information. The
// office learns of changes from the log only, batch by batch (office.follow).
//
// # Mutexes
//
// Sessions, waiters, delays and deadlines share the office's mutex, for three
// reasons. First, a grant from the queue is delivered to a waiting call,
// becomes an event of its session, or is withdrawn; it is never lost, and never
// withdrawn after delivery. That decision needs the calls and the session at
// the same instant. Second, a deadline that is due either marks its session as
// expiring or finds it extended, with no keepalive in between. Third, a batch
// takes effect on the office as a whole, as it was applied.
//
// The quota ledger, the endings and the turns are never compared with those
// four, so each has a mutex of its own. The ledger follows a batch before any
// call is woken by it: a call's reservation ends after its outcome is counted.
// The batcher's mutex guards the commands that gather for the next entry, and
// the Master's mutex guards which office is the present one.
//
// There are two lock orders, both from the office's mutex downward:
//
//   - office, batcher: a withdrawal gets its place in the log (proposer.begin)
//     under the mutex under which the office decided that no other call waits. A
//     later call is behind it in the log, too.
//   - office, lease: the clock is read under the office's mutex, and the lease is
//     checked after that, for a deadline as for a keepalive.
//
// No other mutex is taken under the mutex of the Master, the ledger, the
// endings or the batcher. No mutex is held while something waits for the log or
// while a line is logged. The state is read under a mutex wherever the answer
// is compared with what that mutex guards. The state is never behind what the
// office has followed, and may be ahead.
package master
