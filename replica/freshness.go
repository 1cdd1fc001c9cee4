package replica

import (
	"sync/atomic"
	"time"
)

// freshness finds an instant such that the state of a replica has everything
// that was acknowledged before it. Neither a heartbeat nor the state itself
// shows that. The replica may have started a moment ago with its last snapshot,
// or be far behind in the log.
//
// At a leader, an entry that it proposed shows it: a batch that was accepted,
// or a barrier. When the entry was made, no later leader was elected yet;
// otherwise a majority would not have stored the entry. So everything
// acknowledged before that precedes the entry in the log.
//
// At a follower, a report of a master in office shows it, once the state has
// reached the reported entry and these hold:
//
//   - The message does not end before what the master has published. While a
//     replica catches up, messages end earlier, and so does the commit index in
//     them.
//   - The state has that much, and an office that was opened in the leader's
//     own term. So the leader is its master, and the state has everything of
//     its predecessors.
//   - More is committed than in the last report that counted. A master puts a
//     batch into the log every quarter of its lease. A master that is cut off,
//     or wakes from a pause, repeats its earlier reports.
//
// A restart needs one more argument:
//
//  1. Everything that a replica knew to be committed when it stopped was in its
//     log or its snapshot, unless it led: then its disk may have been behind.
//  2. In the term in which it led, no other leader can have reported a commit
//     index.
//  3. A report from an office with a later term than the last entry covers all
//     of that.
//  4. A report of the same term covers it if it reaches as far as the last
//     entry. A report that reaches less far may have been sent before the stop.
//
// A report counts from its arrival, and may have been under way for a while.
type freshness struct {
	clock   func() time.Duration
	present func() uint64 // Raft's term at this replica

	asOf atomic.Int64 // by the replica's clock, plus one nanosecond; 0 until something was shown

	before position // the last entry that was stored when the replica started

	// publisher's mu guards what follows, and every change of asOf.
	applied uint64
	office  uint64   // term of the last office that was applied
	pending position // reported and not yet reached; zero if every report was reached
	counted uint64   // index of the last report that was reached
}

// position is the last entry of a log. For a leader's report, it is the entry
// up to which all are committed, and when the report arrived.
type position struct {
	term, index uint64
	at          time.Duration
}

// report records a leader's report. A report of the same term that the state
// has not reached stays: otherwise each new report would replace it before it
// counts.
func (f *freshness) report(term, index uint64) {
	late := term == f.before.term && index < f.before.index
	if !late && index > f.counted && term >= f.present() && term > f.pending.term {
		f.pending = position{term, index, f.clock()}
	}
	f.check()
}

// advance records how far the state has come.
func (f *freshness) advance(applied, office uint64) {
	f.applied, f.office = applied, office
	f.check()
}

// check counts the pending report once the state has reached it.
func (f *freshness) check() {
	if w := f.pending; w.index != 0 && w.index <= f.applied && w.term == f.office {
		f.counted, f.pending = w.index, position{}
		f.since(w.at)
	}
}

// since records that the state has everything acknowledged before an instant.
func (f *freshness) since(at time.Duration) {
	f.asOf.Store(max(f.asOf.Load(), int64(at)+1))
}

// AsOf returns an instant, by the replica's clock: State has everything that
// was acknowledged before it. Read AsOf before State. It is false until the
// replica, since its start, has caught up with a master, or with the cell as
// its leader.
func (r *Replica) AsOf() (at time.Duration, known bool) {
	n := r.fsm.publisher.fresh.asOf.Load()
	return time.Duration(n - 1), n > 0
}
