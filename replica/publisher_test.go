package replica

import (
	"errors"
	"testing"
	"time"

	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/state"
)

// teller is a publisher for a test, of a replica that leads in one term.
type teller struct {
	publisher
	t       *testing.T
	term    uint64
	state   *state.State
	now     time.Duration
	present uint64 // Raft's term
}

func newTeller(t *testing.T) *teller {
	w := &teller{t: t, state: state.New()}
	w.publisher = publisher{leads: func(term uint64) bool { return term == w.term }, events: events.New(100, 1<<20, 0), advanced: make(chan struct{}, 1)}
	w.fresh.clock, w.fresh.present = func() time.Duration { return w.now }, func() uint64 { return w.present }
	return w
}

// hear delivers the commit index of a leader.
func (w *teller) hear(index uint64) { w.publisher.committed(w.present, index, false) }

// apply applies an entry of a term that writes a file, or that opens an office.
func (w *teller) apply(index, term uint64, opens bool) {
	w.t.Helper()
	write := &state.Write{Path: "/f", Content: []byte("x"), Sum: make([]byte, 32)}
	b := state.Batch{Epoch: w.state.Epoch, LeaseMS: 1000, Commands: []state.Command{{Operation: &state.Transaction{Then: []state.Step{write}}}}}
	if opens {
		b.Commands[0].Operation = &state.OpenOffice{Term: term, Master: "r1"}
	}
	next, out := w.state.Apply(index, term, b)
	if !out.Accepted {
		w.t.Fatalf("entry %d is refused", index)
	}
	w.state = next
	w.append(index, out.Changes, next)
}

// wantTold checks up to which entry messages to followers report commits, and
// up to which revision watchers here are.
func (w *teller) wantTold(entry, revision uint64) {
	w.t.Helper()
	if _, upTo, err := w.events.Read(0, events.Filter{}, 100); upTo != revision || w.publishedTo() != entry || err != nil {
		w.t.Errorf("told is up to entry %d and revision %d (%v), want %d and %d", w.publishedTo(), upTo, err, entry, revision)
	}
}

// TestMasterTellsWhatItHasApplied: no other replica reports it earlier.
func TestMasterTellsWhatItHasApplied(t *testing.T) {
	t.Parallel()
	w := newTeller(t)
	w.term = 1
	w.apply(2, 1, true)
	w.wantTold(2, 1)
	w.apply(3, 1, false)
	w.wantTold(3, 2)
}

// TestDeposedMasterTellsNoMore: it publishes no more of what it applies than
// leaders report as committed. That holds also if it leads again in a later
// term and has opened no office yet.
func TestDeposedMasterTellsNoMore(t *testing.T) {
	for _, term := range []uint64{0, 3} {
		w := newTeller(t)
		w.term = 1
		w.apply(2, 1, true)
		w.wantTold(2, 1)
		w.term = term
		w.apply(3, 1, false)
		w.wantTold(2, 1)
		w.hear(3)
		w.wantTold(3, 2)
		w.apply(4, 1, false)
		w.wantTold(3, 2)
	}
}

// TestFollowersTellWhatTheyAreTold: the order of report and application does
// not matter.
func TestFollowersTellWhatTheyAreTold(t *testing.T) {
	t.Parallel()
	w := newTeller(t)
	w.apply(2, 1, true)
	w.wantTold(0, 0)
	w.hear(2)
	w.wantTold(2, 1)
	w.hear(4)
	w.apply(3, 1, false)
	w.apply(4, 1, false)
	w.wantTold(4, 3)
	w.hear(3) // by a message that is late
	w.apply(5, 1, false)
	w.wantTold(4, 3)
}

// TestSuccessorTellsWhenItIsInOffice: entries of its predecessor that it has
// committed earlier are published then, or when the next leader reports them.
func TestSuccessorTellsWhenItIsInOffice(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]func(*teller){
		"it opens its office":      func(w *teller) { w.apply(5, 3, true) },
		"another one is in office": func(w *teller) { w.term = 0; w.hear(5); w.apply(5, 4, true) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newTeller(t)
			w.apply(2, 1, true)
			w.hear(2)
			w.term = 3
			w.apply(4, 1, false)
			w.wantTold(2, 1)
			told(w)
			w.wantTold(5, 3)
		})
	}
}

// TestRestoredState: a restored state is published when a leader reports that
// it is committed. Watchers that have received less must then read it.
func TestRestoredState(t *testing.T) {
	t.Parallel()
	w := newTeller(t)
	w.apply(2, 1, true)
	w.hear(2)
	w.apply(3, 1, false)
	w.apply(4, 1, false)
	w.restored(w.state)
	w.wantTold(0, 0)
	if _, upTo, err := w.events.Read(1, events.Filter{}, 100); upTo != 1 || err != nil {
		t.Errorf("told is up to %d, %v", upTo, err)
	}
	w.hear(4)
	var gone *events.Compacted
	if _, _, err := w.events.Read(1, events.Filter{}, 100); !errors.As(err, &gone) || gone.Revision != 3 {
		t.Errorf("%+v, %v", gone, err)
	}
	w.apply(5, 1, false)
	w.hear(5)
	if got, upTo, err := w.events.Read(3, events.Filter{}, 100); upTo != 4 || len(got) != 1 || err != nil {
		t.Errorf("told is up to %d, %v", upTo, err)
	}
}
