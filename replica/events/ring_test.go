package events_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/state"
)

// TestEdge: the oldest revision that is answered, and the one before it.
func TestEdge(t *testing.T) {
	ring := events.New(3, 1<<20, 10)
	for r := uint64(11); r <= 15; r++ {
		c, _ := change(5, r, "/a")
		ring.Append([]state.Change{c}, at(r))
		ring.Publish()
	}
	got, upTo, err := ring.Read(12, events.Filter{}, 100)
	if err != nil || len(got) != 3 || got[0].Revision != 13 || upTo != 15 {
		t.Fatalf("after 12: %v up to %d, %v", said(got), upTo, err)
	}
	var gone *events.Compacted
	if _, _, err := ring.Read(11, events.Filter{}, 100); !errors.As(err, &gone) || *gone != (events.Compacted{Oldest: 12, Revision: 15}) {
		t.Fatalf("after 11: %v", err)
	}
	if got, upTo, err := ring.Read(99, events.Filter{}, 100); got != nil || upTo != 99 || err != nil {
		t.Fatalf("after 99: %v up to %d, %v", got, upTo, err)
	}
}

// TestReadersTogether: waiting watchers, and one that sleeps between reads,
// receive every event once and in order, while the ring moves its array.
func TestReadersTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const last = 3000
		ring := events.New(last, 1<<30, 0)
		for w := range 20 {
			go func() {
				watch := ring.Watch(events.Filter{})
				defer watch.Close()
				for after := uint64(0); after < last; {
					got, upTo, err := watch.Read(after, 1+w*7)
					if err != nil {
						t.Error(err)
						return
					}
					for i, e := range got {
						if e.Revision != after+uint64(i)+1 {
							t.Errorf("after %d, number %d is %d", after, i, e.Revision)
							return
						}
					}
					if len(got) == 1+w*7 && upTo != got[w*7].Revision {
						t.Errorf("%d events after %d are everything up to %d", len(got), after, upTo)
						return
					}
					if after = upTo; len(got) == 0 {
						<-watch.Ready()
					}
				}
			}()
		}
		for r := uint64(1); r <= last; r++ {
			c, _ := change(int(r%7), r, "/a")
			ring.Append([]state.Change{c}, at(r))
			if ring.Publish(); r%100 == 0 {
				synctest.Wait()
			}
		}
	})
}

// TestRestoreWakes: a watcher that waits after the restored revision learns
// that it is too late.
func TestRestoreWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := events.New(10, 1<<20, 5)
		go func() {
			watch := ring.Watch(events.NewFilter([]string{"/none"}, nil, nil))
			defer watch.Close()
			if got, upTo, err := watch.Read(5, 1); got != nil || upTo != 5 || err != nil {
				t.Error(got, upTo, err)
			}
			<-watch.Ready()
			var gone *events.Compacted
			if _, _, err := watch.Read(5, 1); !errors.As(err, &gone) || gone.Oldest != 9 {
				t.Error(err)
			}
		}()
		synctest.Wait()
		ring.Restore(9)
		ring.Publish()
	})
}

// TestRestoreWithoutARevisionWakes: the rights of a watcher may have changed in a
// restored state with the same revision.
func TestRestoreWithoutARevisionWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := events.New(10, 1<<20, 5)
		watch := ring.Watch(events.NewFilter([]string{"/none"}, nil, nil))
		defer watch.Close()
		if got, upTo, err := watch.Read(5, 1); got != nil || upTo != 5 || err != nil {
			t.Fatal(got, upTo, err)
		}
		ring.Restore(5)
		ring.Publish()
		select {
		case <-watch.Ready():
		default:
			t.Error("the watcher sleeps")
		}
	})
}

// TestAReadStays: later events do not change the result of a read.
func TestAReadStays(t *testing.T) {
	ring := events.New(4, 1<<20, 0)
	var before []events.Event
	for r := uint64(1); r <= 100; r++ {
		c, _ := change(5, r, "/a")
		ring.Append([]state.Change{c}, at(r))
		ring.Publish()
		if r == 4 {
			before, _, _ = ring.Read(0, events.Filter{}, 4)
		}
	}
	for i, e := range before {
		if e.Revision != uint64(i)+1 {
			t.Errorf("number %d has become %d", i, e.Revision)
		}
	}
}

// TestNothingIsToldBeforeItMay: appended events wait for Publish, even if the
// ring forgets them before that.
func TestNothingIsToldBeforeItMay(t *testing.T) {
	ring := events.New(3, 1<<20, 0)
	add := func(r uint64) {
		c, _ := change(5, r, "/a")
		ring.Append([]state.Change{c}, at(r))
	}
	add(1)
	ring.Publish()
	watch := ring.Watch(events.Filter{})
	watch.Read(1, 10)
	add(2)
	if got, upTo, err := ring.Read(0, events.Filter{}, 10); err != nil || len(got) != 1 || upTo != 1 || ready(watch) {
		t.Errorf("told are %v up to %d, %v", said(got), upTo, err)
	}
	if past := ring.Past("/a", 10); len(past.Events) != 1 || past.Revision != 1 {
		t.Errorf("remembered is %+v", past)
	}
	ring.Publish()
	if got, upTo, err := ring.Read(0, events.Filter{}, 10); err != nil || len(got) != 2 || upTo != 2 || !ready(watch) {
		t.Errorf("told are %v up to %d, %v", said(got), upTo, err)
	}
	for r := uint64(3); r <= 9; r++ {
		add(r)
	}
	if past := ring.Past("/a", 10); past.Events != nil || past.Revision != 2 || past.Oldest != 2 {
		t.Errorf("remembered is %+v", past)
	}
	var gone *events.Compacted
	if got, upTo, err := ring.Read(1, events.Filter{}, 10); err != nil || got != nil || upTo != 1 {
		t.Errorf("told are %v up to %d, %v", said(got), upTo, err)
	}
	ring.Publish()
	if _, _, err := ring.Read(2, events.Filter{}, 10); !errors.As(err, &gone) || *gone != (events.Compacted{Oldest: 6, Revision: 9}) {
		t.Errorf("after 2: %+v, %v", gone, err)
	}
	ring.Restore(20)
	if got, upTo, err := ring.Read(9, events.Filter{}, 10); err != nil || got != nil || upTo != 9 {
		t.Errorf("told are %v up to %d, %v", said(got), upTo, err)
	}
}

// TestContent: the ring keeps no content, and finds the file's while the file
// is unchanged.
func TestContent(t *testing.T) {
	ring := events.New(10, 1<<20, 0)
	s, out := state.New().Apply(1, 1, state.Batch{LeaseMS: 1000, Commands: []state.Command{{Operation: &state.OpenOffice{Master: "r1", Term: 1}}}})
	ring.Append(out.Changes, s)
	ring.Publish()
	for i, content := range []string{"one", "two"} {
		write := &state.Write{Path: "/f", Content: []byte(content), Sum: make([]byte, 32)}
		s, out = s.Apply(uint64(i)+2, 1, state.Batch{LeaseMS: 1000, Epoch: out.Epoch, Commands: []state.Command{{Operation: &state.Transaction{Then: []state.Step{write}}}}})
		ring.Append(out.Changes, s)
		ring.Publish()
	}
	got, _, err := ring.Read(0, events.Filter{}, 10)
	if err != nil || len(got) != 3 {
		t.Fatalf("%v, %v", said(got), err)
	}
	if epoch, master := got[0].Master(); epoch != 1 || master != "r1" {
		t.Errorf("master %q of epoch %d", master, epoch)
	}
	for i, want := range []string{"", "two"} {
		e := got[i+1]
		if content, ok := e.Content(s); string(content) != want || ok != (want != "") || e.File().Content != nil {
			t.Errorf("%v: %q %v, kept %q", e.Type, content, ok, e.File().Content)
		}
	}
}

// TestSessionNames: the name of a live session, and of one that ended in the
// same entry as its grant.
func TestSessionNames(t *testing.T) {
	ring := events.New(10, 1<<20, 0)
	h := &state.Hold{Path: "/l", Session: "s1"}
	ring.Append([]state.Change{state.Granted{Revision: 1, Hold: h}, state.Released{Revision: 2, Hold: h, Reason: state.Expired},
		state.SessionEnded{Session: &state.Session{ID: "s1", Name: "worker"}, Expired: true}}, at(2))
	ring.Publish()
	got, _, _ := ring.Read(0, events.Filter{}, 10)
	if len(got) != 2 || got[0].Owner().Name != "worker" || got[1].Owner().Name != "worker" || got[1].Reason() != "session_expired" {
		t.Errorf("%+v", got)
	}
}

// TestPrefixes: every set of prefixes, in both orders, matches what any of them
// matches.
func TestPrefixes(t *testing.T) {
	for set := range 1 << len(prefixes) {
		var a asked
		for i, p := range prefixes {
			if set>>i&1 != 0 {
				a.prefixes = append(a.prefixes, p)
			}
		}
		for range 2 {
			f := a.filter()
			for _, path := range nodes {
				e := events.Event{Type: events.FileChanged, Path: path}
				if want := a.wants(told{"file_changed", 1, path}); f.Passes(&e) != want {
					t.Errorf("%q of %q: %v", path, a.prefixes, !want)
				}
			}
			slices.Reverse(a.prefixes)
		}
	}
}

func TestTypes(t *testing.T) {
	for k := events.FileCreated; k <= events.MasterChanged; k++ {
		if parsed, ok := events.ParseType(k.String()); !ok || parsed != k {
			t.Errorf("%v is parsed as %v", k, parsed)
		}
	}
	if _, ok := events.ParseType("file_moved"); ok {
		t.Error("file_moved is a type")
	}
}

// TestAppendAllocates: a grant and a release of one session take memory for the
// owner only, besides the ring's own array.
func TestAppendAllocates(t *testing.T) {
	ring := events.New(1000, 1<<20, 0)
	h := &state.Hold{Path: "/a", Session: "s"}
	after := state.New()
	changes := []state.Change{state.Granted{Revision: 1, Hold: h}, state.Released{Revision: 2, Hold: h}}
	ring.Append(changes, after)
	if n := testing.AllocsPerRun(500, func() { ring.Append(changes, after) }); n > 3 {
		t.Errorf("%v allocations", n)
	}
}
