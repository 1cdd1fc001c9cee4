package events_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

func ready(w *events.Watch) bool { return len(w.Ready()) > 0 }

// watcher reads when it is woken, and sometimes at other times.
type watcher struct {
	*events.Watch
	asked asked
	after uint64
	waits bool // its last read succeeded
	full  bool // and found as many events as it may: there may be more
}

// stage is a ring that publishes late, with a record of its events and its
// watchers.
type stage struct {
	model
	ring  *events.Ring
	told  uint64
	lost  []uint64 // revisions that were never published: a restore skipped them
	begun bool     // a restore has emptied the ring
	small bool     // the ring forgets
	all   []*watcher
}

// missing reports whether a lost revision lies between two revisions.
func (s *stage) missing(after, upTo uint64) bool {
	return slices.ContainsFunc(s.lost, func(r uint64) bool { return r > after && r <= upTo })
}

// wanted returns the events for a watcher between two revisions.
func (s *stage) wanted(w *watcher, after, upTo uint64) (all []told) {
	for _, t := range s.model.all {
		if t.revision > after && t.revision <= upTo && w.asked.wants(t) {
			all = append(all, t)
		}
	}
	return all
}

// read makes a watcher read once.
func (s *stage) read(t *rapid.T, w *watcher, limit int) {
	select {
	case <-w.Ready():
	default:
	}
	got, upTo, err := w.Read(w.after, limit)
	var gone *events.Compacted
	if errors.As(err, &gone) {
		if _, _, plain := s.ring.Read(w.after, events.Filter{}, 1); plain == nil {
			t.Fatalf("after %d: %v, which the ring does not say", w.after, err)
		}
		w.after, w.waits = gone.Revision, false
		return
	}
	wanted := s.wanted(w, w.after, upTo)
	if !slices.Equal(said(got), wanted) || len(got) > limit || upTo < w.after || s.missing(w.after, min(upTo, s.told)) {
		t.Fatalf("after %d, told %d, %+v: %v up to %d, want %v", w.after, s.told, w.asked, said(got), upTo, wanted)
	}
	w.after, w.waits, w.full = upTo, true, len(got) == limit
}

// untold reports whether the ring has forgotten the events after a revision and
// has not published that yet.
func (s *stage) untold(after uint64) bool {
	got, upTo, err := s.ring.Read(after, events.Filter{}, 1)
	return err == nil && got == nil && upTo == after && after < s.told
}

// look checks that a waiting watcher that was not woken misses no event, and
// that a woken one has a reason.
func (s *stage) look(t *rapid.T) {
	for _, w := range s.all {
		if !w.waits || s.untold(w.after) {
			continue
		}
		due := len(s.wanted(w, w.after, s.told)) > 0
		if !ready(w.Watch) && (due || s.missing(w.after, s.told)) {
			t.Fatalf("%+v waits after %d and is not woken, told is %d", w.asked, w.after, s.told)
		}
		if ready(w.Watch) && !due && !w.full && !s.small && !s.begun {
			t.Fatalf("%+v waits after %d and is woken for nothing, told is %d", w.asked, w.after, s.told)
		}
	}
}

// TestWatchesAgainstModel: watchers receive each matching event once, and are
// woken only for these, or once after a read that had no room for more.
func TestWatchesAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &stage{small: rapid.Bool().Draw(t, "small")}
		s.ring = events.New(map[bool]int{true: 6, false: 1000}[s.small], 1<<20, 0)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				changes := s.entry(t)
				s.ring.Append(changes, at(s.reached))
			},
			"tell": func(*rapid.T) {
				s.ring.Publish()
				s.told = s.reached
			},
			"restore": func(t *rapid.T) {
				ahead := rapid.Uint64Range(0, 3).Draw(t, "ahead")
				for range ahead {
					s.reached++
					s.lost = append(s.lost, s.reached)
				}
				s.ring.Restore(s.reached)
				s.begun = true
			},
			"come": func(t *rapid.T) {
				w := &watcher{asked: drawAsked(t), after: rapid.Uint64Range(0, s.reached+2).Draw(t, "after")}
				w.Watch = s.ring.Watch(w.asked.filter())
				s.all = append(s.all, w)
			},
			"go": func(t *rapid.T) {
				if len(s.all) == 0 {
					t.Skip("nobody watches")
				}
				i := rapid.IntRange(0, len(s.all)-1).Draw(t, "watcher")
				s.all[i].Close()
				s.all = slices.Delete(s.all, i, i+1)
			},
			"read": func(t *rapid.T) {
				if len(s.all) == 0 {
					t.Skip("nobody watches")
				}
				s.read(t, rapid.SampledFrom(s.all).Draw(t, "watcher"), rapid.IntRange(1, 4).Draw(t, "limit"))
			},
			"": s.look,
		})
	})
}

// TestWatchesAreWokenByName: a path, a prefix that equals or begins it, and a
// new master wake a watch; unrelated events do not.
func TestWatchesAreWokenByName(t *testing.T) {
	for _, c := range []struct {
		asked asked
		kind  int
		path  string
		woken bool
	}{
		{asked{paths: []string{"/a/b"}}, 5, "/a/b", true}, {asked{paths: []string{"/a/b"}}, 5, "/a", false}, {asked{paths: []string{"/a/b"}}, 5, "/a/b/c", false},
		{asked{prefixes: []string{"/a/b"}}, 5, "/a/b", true}, {asked{prefixes: []string{"/a/b"}}, 5, "/a/bc", true}, {asked{prefixes: []string{"/a/b"}}, 5, "/a/", false},
		{asked{prefixes: []string{"/x/y/z", "/a/"}}, 5, "/a/b", true}, {asked{paths: []string{"/x"}, prefixes: []string{"/y"}}, 5, "/a", false},
		{asked{prefixes: []string{""}}, 5, "/a", true}, {asked{}, 5, "/a", true}, {asked{types: []events.Type{events.FileDeleted}}, 5, "/a", false},
		{asked{types: []events.Type{events.FileDeleted}}, 6, "/a", true}, {asked{paths: []string{"/x"}, types: []events.Type{events.FileDeleted}}, 0, "", true},
	} {
		ring := events.New(10, 1<<20, 0)
		w := ring.Watch(c.asked.filter())
		w.Read(0, 1)
		change, _ := change(c.kind, 1, c.path)
		ring.Append([]state.Change{change}, at(1))
		ring.Publish()
		if ready(w) != c.woken {
			t.Errorf("%+v: woken by %q is %v", c.asked, c.path, ready(w))
		}
		if got, upTo, err := w.Read(0, 10); len(got) > 0 != c.woken || upTo != 1 || err != nil {
			t.Errorf("%+v: %v up to %d, %v", c.asked, said(got), upTo, err)
		}
		w.Close()
	}
}

// TestWatchIsWokenForWhatIsToldWhileItReads: a read without room ends like one
// that found no event and ended before the event came.
func TestWatchIsWokenForWhatIsToldWhileItReads(t *testing.T) {
	ring := events.New(10, 1<<20, 0)
	for revision := range uint64(3) {
		change, _ := change(5, revision+1, "/a")
		ring.Append([]state.Change{change}, at(revision+1))
	}
	ring.Publish()
	for after := range uint64(4) {
		w := ring.Watch(events.Filter{})
		if got, upTo, err := w.Read(after, 0); got != nil || upTo != after || err != nil {
			t.Errorf("after %d: %v up to %d, %v", after, said(got), upTo, err)
		}
		if more := after < 3; ready(w) != more {
			t.Errorf("after %d of 3 events the watch is woken: %v", after, !more)
		}
		w.Close()
	}
}

// TestWatchOfARingThatWasEmptied: a reader that reads before an event is
// published receives it later, and does not count it as read.
func TestWatchOfARingThatWasEmptied(t *testing.T) {
	ring := events.New(10, 1<<20, 0)
	change, _ := change(5, 1, "/a")
	ring.Append([]state.Change{change}, at(1))
	ring.Publish()
	w := ring.Watch(events.Filter{})
	defer w.Close()
	ring.Restore(2)
	for range 2 {
		if got, upTo, err := w.Read(0, 1); got != nil || upTo != 0 || err != nil || ready(w) {
			t.Errorf("before it may be told: %v up to %d, %v", said(got), upTo, err)
		}
	}
	ring.Publish()
	var gone *events.Compacted
	if _, _, err := w.Read(0, 1); !ready(w) || !errors.As(err, &gone) || gone.Oldest != 2 {
		t.Errorf("woken %v, %v", ready(w), err)
	}
}

// ruled returns a state at a revision with access on or off. In it user:a may
// read below /a.
func ruled(t *testing.T, revision uint64, on bool) *state.State {
	t.Helper()
	s, _ := state.New().Apply(1, 1, state.Batch{LeaseMS: 2000, Commands: []state.Command{{Operation: &state.OpenOffice{Master: "r1", Term: 1}}}})
	rule := access.Rule{Path: "/a", Lists: map[access.Permission][]string{access.Read: {"user:a"}}}
	s, out := s.Apply(2, 1, state.Batch{Epoch: s.Epoch, LeaseMS: 2000, Commands: []state.Command{
		{Operation: &state.RaiseLevel{Level: state.Level}}, {Operation: &state.PutRule{Rule: rule}}}})
	if !out.Accepted || out.Results[1] != state.Done {
		t.Fatalf("%+v", out)
	}
	s.Revision, s.AccessOn = revision, on
	return s
}

// TestWatchesOfReaders: while access is on, only events that its principal may
// read wake a watch. While access is off, all events do. A change of access
// wakes it as well; it then reads again what it has skipped.
func TestWatchesOfReaders(t *testing.T) {
	for _, c := range []struct {
		reader, path string
		on, woken    bool
	}{
		{"user:a", "/a/x", true, true}, {"user:a", "/b", true, false}, {"user:b", "/a/x", true, false}, {access.Anonymous, "/a/x", true, false},
		{access.Root, "/b", true, true}, {"", "/b", true, true}, {"user:b", "/a/x", false, true}, {access.Anonymous, "/b", false, true},
	} {
		for name, asks := range map[string]asked{"all": {}, "a path": {paths: []string{c.path}}, "a prefix": {prefixes: []string{c.path[:2]}}} {
			ring := events.New(10, 1<<20, 0)
			w := ring.WatchAs(c.reader, asks.filter())
			w.Read(0, 1)
			one, _ := change(5, 1, c.path)
			ring.Append([]state.Change{one}, ruled(t, 1, c.on))
			ring.Publish()
			if ready(w) != c.woken {
				t.Errorf("%q, who watches %s, is woken by %s: %v; access is on: %v", c.reader, name, c.path, ready(w), c.on)
			}
			if got, upTo, err := w.Read(0, 10); len(got) > 0 != c.woken || upTo != 1 || err != nil {
				t.Errorf("%q reads %v up to %d, %v", c.reader, said(got), upTo, err)
			}
			ring.Append([]state.Change{state.AccessChanged{}}, ruled(t, 1, c.on))
			ring.Publish()
			if got, _, err := w.Read(0, 10); !ready(w) || len(got) != 1 || err != nil {
				t.Errorf("after a change of access %q is woken: %v, and reads %v, %v", c.reader, ready(w), said(got), err)
			}
			w.Close()
		}
	}
}

// TestManyEventsAtOnce: if very many watches match the events of one entry, all
// watches are woken, and read each event once. A watch of something else does not
// count as behind.
func TestManyEventsAtOnce(t *testing.T) {
	const most = 10_000
	ring := events.New(most, 64<<20, 0)
	var last uint64
	publish := func(n int) {
		var changes []state.Change
		for range n {
			last++
			c, _ := change(5, last, fmt.Sprintf("/app/%d", last))
			changes = append(changes, c)
		}
		ring.Append(changes, at(last))
		ring.Publish()
	}
	other := ring.Watch(events.NewFilter([]string{"/x"}, nil, nil))
	defer other.Close()
	other.Read(0, 1)
	all := make([]*events.Watch, 20)
	for i := range all {
		all[i] = ring.Watch(events.NewFilter(nil, []string{"/app/"}, nil))
		defer all[i].Close()
		all[i].Read(0, 1)
	}
	for _, c := range []struct {
		n    int
		wake bool // the watch of something else, too
	}{{100, false}, {most, true}} {
		before := last
		publish(c.n)
		if ready(other) != c.wake {
			t.Errorf("%d events: the watch of something else is woken: %v", c.n, ready(other))
		}
		for _, w := range all {
			if got, upTo, err := w.Read(before, 2*most); len(got) != c.n || upTo != last || err != nil || !ready(w) {
				t.Fatalf("%d of %d events up to %d, %v", len(got), c.n, upTo, err)
			}
			<-w.Ready()
		}
	}
	if got, upTo, err := other.Read(0, 1); len(got) != 0 || upTo != last || err != nil {
		t.Errorf("a watch of something else: %d events up to %d, %v", len(got), upTo, err)
	}
}
