package replica

import (
	"sync"
	"time"

	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/state"
)

// telling says which of the events that this replica has applied may be told,
// to watchers here and, by what it says is committed, at its followers: those
// that the master in office has applied. So whoever has heard of an event finds
// it in whatever the master is asked then.
//
// That an entry is committed is not enough. The master may be slow to apply it.
// Or a new leader, whose office is not open yet, has committed an entry of its
// predecessor's, who holds its lease and knows of no such thing: the answers
// that it waits for were lost.
//
// A replica knows of an entry that it may be told where it leads in the term of
// the last office that it has applied, since it is the master then; and where a
// leader says that it is committed, since leaders keep to this as well.
type telling struct {
	leads    func(term uint64) bool // whether this replica does
	events   *events.Ring
	advanced chan struct{} // has a value when told has grown
	fresh    freshness

	mu      sync.Mutex // guards what follows
	heard   uint64     // entries up to it are committed, by the word of leaders
	applied uint64
	mine    bool   // this replica led in the term of the last office when it had applied that
	told    uint64 // entries up to it are told
}

// took takes in an entry that was applied, and what that has changed.
func (t *telling) took(index uint64, changes []state.Change, after *state.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events.Append(changes, after)
	t.applied, t.mine = index, t.leads(after.Office.Term)
	t.fresh.reach(index, after.Office.Term)
	t.tell()
}

// hear takes in what a leader of a term says is committed; last reports that its
// message goes to the end of its log.
func (t *telling) hear(term, index uint64, last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = max(t.heard, index)
	if last {
		t.fresh.hear(term, index)
	}
	t.tell()
}

// proposed takes in that an entry which this replica made at an instant was accepted.
func (t *telling) proposed(at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh.since(at)
}

// restored begins anew with a state, which watchers are told to read.
func (t *telling) restored(s *state.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events.Restore(s.Revision)
	t.applied, t.mine, t.told = s.Index, false, 0
	t.fresh.reach(s.Index, s.Office.Term)
	t.tell()
}

// tell tells all that was applied, if it may. The caller has mu.
func (t *telling) tell() {
	if t.told == t.applied {
		return
	}
	if t.mine || t.applied <= t.heard {
		t.told = t.applied
		t.events.Tell()
		select {
		case t.advanced <- struct{}{}:
		default:
		}
	}
}

// upTo is the last entry that is told.
func (t *telling) upTo() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.told
}
