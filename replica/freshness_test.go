package replica

import (
	"testing"
	"time"

	"github.com/stoutlock/stout/replica/state"
)

// wantAsOf checks the instant from which the state is known to have everything;
// negative for never.
func (w *teller) wantAsOf(when string, want time.Duration) {
	w.t.Helper()
	r := &Replica{fsm: &fsm{}}
	r.fsm.publisher.fresh.asOf.Store(w.fresh.asOf.Load())
	if at, known := r.AsOf(); known != (want >= 0) || known && at != want {
		w.t.Errorf("%s: as of %v, %v; want %v", when, at, known, want)
	}
}

// reports makes a leader report a commit index, an instant after the previous
// event. last reports whether the message goes to the end of its log.
func (w *teller) reports(term, index uint64, last bool) {
	w.now++
	w.publisher.committed(term, index, last)
}

// TestStateIsAsOfTheWordThatItReached: a report of a master in office counts if
// it goes to the end of its log and the state has reached it.
func TestStateIsAsOfTheWordThatItReached(t *testing.T) {
	w := newTeller(t)
	w.present = 3
	w.reports(3, 0, true)
	w.wantAsOf("a heartbeat", -1)
	w.reports(3, 5, true) // at 2
	w.apply(2, 1, true)
	w.apply(3, 1, false)
	w.wantAsOf("a part", -1)
	w.reports(3, 6, true) // at 3
	w.apply(5, 1, false)
	w.wantAsOf("all, and no office of that leader", -1)
	w.apply(6, 3, true)
	w.wantAsOf("the office that covers all before", 2)
	w.reports(3, 6, false) // at 4
	w.wantAsOf("a message that is full", 2)
	w.reports(3, 6, true) // at 5
	w.wantAsOf("a message to the end", 5)
	w.reports(3, 6, true)
	w.reports(3, 5, true)
	w.wantAsOf("the same again, and a late one", 5)
	w.reports(3, 8, true) // at 8
	w.reports(3, 9, true)
	w.apply(7, 3, false)
	w.wantAsOf("behind that word", 5)
	w.apply(8, 3, false)
	w.wantAsOf("the first of two words", 8)
	w.present = 4
	w.reports(3, 9, true)
	w.apply(9, 3, false)
	w.wantAsOf("a leader that is deposed", 8)
	w.reports(4, 10, true) // at 11
	w.apply(10, 4, true)
	w.wantAsOf("the next master", 11)
	w.proposed(10)
	w.wantAsOf("an own entry of before", 11)
}

// TestStateIsAsOfASnapshot: a snapshot counts only when it reaches a report.
func TestStateIsAsOfASnapshot(t *testing.T) {
	from := newTeller(t)
	from.apply(2, 1, true)
	from.apply(9, 1, false)
	w := newTeller(t)
	w.present = 1
	w.restored(from.state)
	w.wantAsOf("its own, at the start", -1)
	w.reports(1, 9, true)
	w.wantAsOf("with a word", 1)
	w = newTeller(t)
	w.present = 1
	w.reports(1, 9, true)
	w.restored(from.state)
	w.wantAsOf("that was installed", 1)
}

// TestLateWordOfBeforeTheStart: such a report counts only if it covers what the
// replica had stored. The same leader may have reported more before the stop.
func TestLateWordOfBeforeTheStart(t *testing.T) {
	w := newTeller(t)
	w.present, w.fresh.before = 2, position{term: 2, index: 7}
	w.apply(2, 2, true)
	w.reports(2, 5, true)
	w.apply(5, 2, false)
	w.wantAsOf("a word that goes less far than the log", -1)
	w.reports(2, 7, true) // at 2
	w.apply(7, 2, false)
	w.wantAsOf("a word that goes as far", 2)

	w = newTeller(t)
	w.present, w.fresh.before = 3, position{term: 2, index: 7}
	w.apply(5, 3, true)
	w.reports(3, 5, true) // at 1; entries 6 and 7 of term 2 were never committed
	w.wantAsOf("a later term, whose log ends before", 1)
}

// TestStateIsAsOfOwnEntries: an own entry counts from when it was made, not
// from its commit, and only if it was accepted.
func TestStateIsAsOfOwnEntries(t *testing.T) {
	now, failed := 7*time.Second, error(nil)
	f := newTestFSM(&now, &failed)
	f.took, f.followers, f.applied = newVitals().applying, newVitals().followers, newVitals().applied
	f.landed = func(index, _ uint64) (left, arrived time.Duration, own bool) {
		return time.Duration(index) * time.Second, 5 * time.Second, index != 2
	}
	r := &Replica{fsm: f}
	logs := twoEntries(t)
	for i, want := range []time.Duration{1, 1, 3, 3} {
		l := logs[min(i, 1)]
		switch i {
		case 2:
			l = logEntry(t, 3, state.Batch{Epoch: 1, LeaseMS: 1000})
		case 3:
			l = logEntry(t, 4, state.Batch{Epoch: 9, LeaseMS: 1000})
		}
		f.Apply(l)
		if at, known := r.AsOf(); !known || at != want*time.Second {
			t.Errorf("after entry %d: as of %v, %v", l.Index, at, known)
		}
	}
}

// TestReplicasThatStartKnowNothing: replicas know no such instant after a start
// until they have caught up with a master in office. Then they have everything that
// they knew to be committed when they stopped.
func TestReplicasThatStartKnowNothing(t *testing.T) {
	t.Parallel()
	opts := options(t, 3)
	all := startAll(t, opts...)
	leader, epoch := lead(t, all...)
	write(t, leader, epoch, "s", 60) // over the threshold: a snapshot and a log behind it
	same(t, leader, all...)
	last := leader.State().Index
	for _, r := range all {
		until(t, r.ID()+" knows", func() bool { _, known := r.AsOf(); return known })
		stop(t, r)
	}

	first := start(t, opts[0])
	if at, known := first.AsOf(); known {
		t.Errorf("alone, with entry %d of %d, it is as of %v", first.State().Index, last, at)
	}
	rest := append([]*Replica{first}, start(t, opts[1]), start(t, opts[2]))
	until(t, "a leader that has everything", func() bool {
		for _, r := range rest {
			if _, leads := r.Leading(); leads && r.Barrier(t.Context()) == nil {
				leader = r
				return true
			}
		}
		return false
	})
	began := leader.Now()
	if at, known := leader.AsOf(); !known || at > began || leader.State().Index < last {
		t.Errorf("a leader that is not in office yet, with entry %d of %d, is as of %v, %v; it is %v", leader.State().Index, last, at, known, began)
	}
	leader, _ = lead(t, rest...)
	for _, r := range rest {
		until(t, r.ID()+" has caught up", func() bool { _, known := r.AsOf(); return known })
		if r.State().Index < last {
			t.Errorf("%s has entry %d of %d", r.ID(), r.State().Index, last)
		}
	}
}
