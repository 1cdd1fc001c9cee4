package replica

import (
	"sync/atomic"
	"time"
)

// freshness finds out as of when the state of a replica has everything that was
// acknowledged. Neither a heartbeat nor the state itself shows that: the replica may have
// started a moment ago with its last snapshot, or be far behind in the log.
//
// At a leader an own entry shows it: a batch that was accepted, or a barrier. When the
// entry was made no later leader was elected yet, or a majority would not have stored the
// entry. So everything that was acknowledged before is in front of it.
//
// At a follower the word of a master in office shows it, if the word was reached:
//
//   - The message goes to the end of the master's log. One that is full, as while a
//     replica catches up, ends earlier, and so does what it says is committed
//     (rafttransport.MaxAppendEntries).
//   - The state has that much, and an office that was opened in the leader's own term. So
//     the leader is its master, and the state has all of its predecessors.
//   - More is committed than by the last word that counted. A master puts a batch into the
//     log every quarter of its lease. One that is cut off, or wakes from a pause, repeats
//     what it said before.
//
// Everything that a replica knew to be committed when it stopped was in its log or its
// snapshot, unless it led: its disk may have been behind. Of that term no other leader has
// a word for it. The office of a later term than the last entry's covers all of that. A word of
// the same term covers it if it goes that far: one that goes less far may have been on its
// way since before the stop.
//
// A word counts from its arrival, and may have been on its way for a while.
type freshness struct {
	clock   func() time.Duration
	present func() uint64 // Raft's term at this replica

	asOf atomic.Int64 // by the clock, plus one nanosecond; 0 while nothing was shown

	before word // the last entry that was stored when the replica started

	// The mu of telling guards what follows, and every change of asOf.
	applied uint64
	office  uint64 // term of the last office that was applied
	word    word   // that has not been reached; the zero word where there is none
	counted uint64 // the index of the last word that was reached
}

// word is what a leader said: up to which entry all is committed.
type word struct {
	term, index uint64
	at          time.Duration
}

// hear takes a word in. An earlier one of the same term is waited for first: there would
// always be a later one that was not reached.
func (f *freshness) hear(term, index uint64) {
	late := term == f.before.term && index < f.before.index
	if !late && index > f.counted && term >= f.present() && term > f.word.term {
		f.word = word{term, index, f.clock()}
	}
	f.look()
}

// reach takes in how far the state is.
func (f *freshness) reach(applied, office uint64) {
	f.applied, f.office = applied, office
	f.look()
}

// look counts a word that was reached.
func (f *freshness) look() {
	if w := f.word; w.index != 0 && w.index <= f.applied && w.term == f.office {
		f.counted, f.word = w.index, word{}
		f.since(w.at)
	}
}

// since takes in that the state has everything as of an instant.
func (f *freshness) since(at time.Duration) {
	f.asOf.Store(max(f.asOf.Load(), int64(at)+1))
}

// AsOf is an instant, by the replica's clock: State has everything that was acknowledged
// before it. Read it before State. It is false until the replica has caught up with a
// master since its start, or with the cell as its leader.
func (r *Replica) AsOf() (at time.Duration, known bool) {
	n := r.fsm.publisher.fresh.asOf.Load()
	return time.Duration(n - 1), n > 0
}
