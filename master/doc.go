// Package master is the term of office of a cell's master: when a replica may
// act as one, and all that a master knows beyond the replicated state.
//
// A Master runs on every replica. When its replica comes to lead, it opens an
// office (open.go): it lets everything committed before be applied, waits until
// every earlier master's lease is over, and proposes the entry that raises the
// epoch. From then on it admits commands, each under that epoch, and answers
// reads and keepalives from memory while its lease runs. When the replica
// ceases to lead, when a batch is refused, or when it hands mastership over,
// the office closes, and everything that belonged to it is dropped: deadlines
// of sessions, waiting calls, pending events, timers of lock-delays. The next
// office, here or elsewhere, starts from the replicated state.
//
// The order of steps in three places is what safety rests on; see package lease
// for why:
//
//   - a proposal's instant is read before the proposal (internal/batch)
//   - a read is checked after it was made, against the lease of the very office
//     that it named (read.go), and so is every other answer, good or bad
//     (serve.go)
//   - the instant that a keepalive extends from is read before the lease is
//     checked, and the answer leaves only if the check passes (keepalive.go)
//
// # One door
//
// Each call of the API is a value of package lockapi and has a row (rows.go), with the
// right that it takes, what the audit log has of it, and the method that serves it. Do
// (calls.go) finds the row. CONTRIBUTING.md says what a new call takes.
//
// # What an office is made of
//
// Each of these types has a file of its name:
//
//	proposer     answers from memory what changes nothing; proposes the rest
//	endings      the turns of sessions that are to end
//	turns        those who write one file by compare-and-set, one after the other
//	sessions     how long each lives, its events, its waiting keepalives
//	waiters      the acquires under way, by claim key
//	delays       the lock-delays in force
//	deadlines    when to look at a session, a delay or an orphaned wait again
//
// Package internal/batch joins what is proposed into log entries. Package internal/quota
// compares what the state has, and what calls under way may add, with the quotas.
//
// A call under way is a value of its own (acquire, keepalive). It looks at these, waits
// to be woken, and looks again: the wakeup says nothing. All that the
// office has to take note of comes from the log, as the changes of one batch
// after the other (office.follow).
//
// # Mutexes
//
// Sessions, waiters, delays and deadlines share the office's mutex, for three
// reasons. A grant from the queue is told to a waiting call, or becomes an
// event of its session, or is taken back; it is never forgotten, and never
// taken back from who was told. Whoever decides that has to see the calls and
// the session at one time. A deadline that is due marks its session as
// expiring, or finds it extended, with no keepalive in between. And a batch is
// taken note of as a whole, as it was applied.
//
// The ledger of the quotas, the endings and the turns are never compared with any of
// those, so they have mutexes of their own. The ledger follows a batch before any call is
// woken by it: the reservation of a call ends after its outcome is counted. The batcher's mutex guards what gathers for the next entry, and
// the Master's which office is the present one.
//
// There are two lock orders, both from the office's mutex downward:
//
//   - office, batcher: a withdrawal gets its place in the log (proposer.begin)
//     under the mutex under which it was decided that no other call waits. Who
//     comes later is behind it in the log, too.
//   - office, lease: a deadline is judged, and a keepalive answered, by a lease
//     that is looked at behind the clock that was read under the mutex.
//
// No other mutex is taken under those of the Master, the ledger, the
// endings or the batcher. None is held while something waits for the log, and
// none while a line is logged. The state is read under a mutex wherever the
// answer is compared with what that mutex guards: the state is never behind
// what the office has been told of it, and may be ahead.
package master
