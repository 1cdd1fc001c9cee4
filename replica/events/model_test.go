package events_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/state"
)

// told is an event in the model.
type told struct {
	kind     string
	revision uint64
	path     string
}

func (t told) String() string { return fmt.Sprintf("%d %s %s", t.revision, t.kind, t.path) }

// asked is a filter as a caller writes it.
type asked struct {
	paths, prefixes []string
	types           []events.Type
}

func (a asked) filter() events.Filter { return events.NewFilter(a.paths, a.prefixes, a.types) }

// wants applies the filter literally.
func (a asked) wants(t told) bool {
	if t.kind == "master_changed" {
		return true
	}
	typed := len(a.types) == 0 || slices.ContainsFunc(a.types, func(k events.Type) bool { return k.String() == t.kind })
	named := len(a.paths)+len(a.prefixes) == 0 || slices.Contains(a.paths, t.path) ||
		slices.ContainsFunc(a.prefixes, func(p string) bool { return strings.HasPrefix(t.path, p) })
	return typed && named
}

// model is everything that ever happened since the last restore.
type model struct {
	all            []told
	began, reached uint64
}

// read returns what a ring that never forgets would return.
func (m *model) read(after uint64, a asked, limit int) (wanted []told, upTo uint64) {
	for _, t := range m.all {
		if t.revision > after && a.wants(t) {
			if wanted = append(wanted, t); len(wanted) == limit {
				return wanted, t.revision
			}
		}
	}
	return wanted, max(after, m.reached)
}

// past is the model's history of a node.
type past struct {
	events []told
	more   bool
}

// past returns the history of a node from a ring that has every event after a
// revision.
func (m *model) past(after uint64, path string, limit int) (p past) {
	own, masters := 0, 0
	for _, t := range slices.Backward(m.all) {
		switch {
		case t.revision <= after:
		case t.kind == "master_changed" && own < limit && masters < limit:
			masters++
			p.events = append(p.events, t)
		case t.path == path && own == limit:
			p.more = true
		case t.path == path:
			own++
			p.events = append(p.events, t)
		}
	}
	return p
}

var (
	nodes    = []string{"/a", "/a/b", "/a/b/c", "/ab", "/a-", "/b", "/b/a"}
	prefixes = []string{"/a", "/a/", "/a/b", "/a/b/", "/b/", "/c", "/"}
)

// entry draws the changes of one entry, and records them in the model.
func (m *model) entry(t *rapid.T) []state.Change {
	var all []state.Change
	for range rapid.IntRange(0, 6).Draw(t, "changes") {
		path := rapid.SampledFrom(nodes).Draw(t, "path")
		c, kind := change(rapid.IntRange(0, 8).Draw(t, "kind"), m.reached+1, path)
		if kind == "master_changed" {
			path = ""
		}
		if kind != "" {
			m.reached++
			m.all = append(m.all, told{kind, m.reached, path})
		}
		all = append(all, c)
	}
	return all
}

// change makes one change of each kind; kind is empty if it has no event.
func change(n int, revision uint64, path string) (c state.Change, kind string) {
	h := &state.Hold{Path: path, Session: "s", Token: revision}
	f := &state.File{Path: path, Revision: revision, Generation: 1, Content: []byte("x")}
	switch n {
	case 0:
		return state.OfficeOpened{Revision: revision, Epoch: 3, Master: "r1"}, "master_changed"
	case 1:
		return state.Granted{Revision: revision, Hold: h}, "lock_acquired"
	case 2:
		return state.Released{Revision: revision, Hold: h, Reason: state.Closed}, "lock_released"
	case 3:
		return state.Enqueued{Revision: revision, Wait: &state.Wait{Path: path}}, "lock_contended"
	case 4:
		return state.FileChanged{Stat: f}, "file_created"
	case 5:
		f.Generation = 2
		return state.FileChanged{Stat: f}, "file_changed"
	case 6:
		return state.FileDeleted{Revision: revision, File: f, Reason: state.Deleted}, "file_deleted"
	case 7:
		return state.Enqueued{Wait: &state.Wait{Path: path}}, ""
	}
	return state.Withdrawn{Wait: &state.Wait{Path: path}}, ""
}

// at returns a state at that revision.
func at(revision uint64) *state.State {
	s := state.New()
	s.Revision = revision
	return s
}

func drawAsked(t *rapid.T) asked {
	var kinds []events.Type
	for k := events.FileCreated; k <= events.MasterChanged; k++ {
		kinds = append(kinds, k)
	}
	return asked{
		paths:    rapid.SliceOfN(rapid.SampledFrom(nodes), 0, 2).Draw(t, "paths"),
		prefixes: rapid.SliceOfN(rapid.SampledFrom(prefixes), 0, 3).Draw(t, "prefixes"),
		types:    rapid.SliceOfN(rapid.SampledFrom(kinds), 0, 3).Draw(t, "types"),
	}
}

// TestRingAgainstModel: a read returns what a ring that never forgets would, or
// Compacted with correct bounds.
func TestRingAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxEvents := rapid.IntRange(0, 12).Draw(t, "max events")
		maxBytes := rapid.SampledFrom([]int64{0, 500, 1500, 1 << 20, 1 << 20, 1 << 20}).Draw(t, "max bytes")
		m := model{began: rapid.Uint64Range(0, 3).Draw(t, "begins")}
		m.reached = m.began
		ring := events.New(maxEvents, maxBytes, m.began)
		oldest := m.began // as last seen
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				changes := m.entry(t)
				ring.Append(changes, at(m.reached))
				ring.Publish()
			},
			"restore": func(t *rapid.T) {
				m.reached += rapid.Uint64Range(0, 5).Draw(t, "ahead")
				m.began, m.all = m.reached, nil
				ring.Restore(m.reached)
				ring.Publish()
				oldest = m.began
			},
			"read": func(t *rapid.T) {
				from := rapid.SampledFrom([]uint64{0, oldest}).Draw(t, "from")
				after := rapid.Uint64Range(from, m.reached+3).Draw(t, "after")
				a := rapid.SampledFrom([]asked{{}, drawAsked(t)}).Draw(t, "asked")
				for limit := 1; limit <= 6; limit++ {
					oldest = check(t, ring, &m, after, oldest, a, limit)
				}
			},
			"look back": func(t *rapid.T) {
				path := rapid.SampledFrom(nodes).Draw(t, "path")
				for limit := 1; limit <= 4; limit++ {
					got, want := ring.Past(path, limit), m.past(oldest, path, limit)
					if !slices.Equal(said(got.Events), want.events) || got.More != want.more || got.Oldest != oldest || got.Revision != m.reached {
						t.Fatalf("past of %s, limit %d: %v, %+v; want %+v after %d", path, limit, said(got.Events), got, want, oldest)
					}
				}
			},
			"": func(t *rapid.T) { oldest = edge(t, ring, &m, oldest, maxEvents, maxBytes) },
		})
	})
}

// check reads once. It returns the oldest revision that is known to be
// answered.
func check(t *rapid.T, ring *events.Ring, m *model, after, oldest uint64, a asked, limit int) uint64 {
	got, upTo, err := ring.Read(after, a.filter(), limit)
	var gone *events.Compacted
	if errors.As(err, &gone) {
		if gone.Oldest <= after || gone.Oldest < oldest || gone.Oldest > m.reached || gone.Revision != m.reached || got != nil || upTo != after {
			t.Fatalf("after %d of %d, oldest was %d: %v up to %d, %+v", after, m.reached, oldest, got, upTo, gone)
		}
		return gone.Oldest
	}
	wanted, end := m.read(after, a, limit)
	if s := said(got); err != nil || after < oldest || upTo != end || !slices.Equal(s, wanted) {
		t.Fatalf("after %d of %d, %+v, limit %d: %v up to %d, %v; want %v up to %d", after, m.reached, a, limit, s, upTo, err, wanted, end)
	}
	return oldest
}

// edge finds the oldest revision. The ring must answer after it and not before,
// and hold exactly as many events as it may.
func edge(t *rapid.T, ring *events.Ring, m *model, oldest uint64, maxEvents int, maxBytes int64) uint64 {
	if m.reached == 0 {
		return oldest
	}
	now := m.began
	for _, _, err := ring.Read(now, events.Filter{}, 1); err != nil; _, _, err = ring.Read(now, events.Filter{}, 1) {
		now++
	}
	var gone *events.Compacted
	if now > 0 {
		if _, _, err := ring.Read(now-1, events.Filter{}, 1); !errors.As(err, &gone) || gone.Oldest != now {
			t.Fatalf("answers after %d, and before it says %v", now, err)
		}
	}
	kept := m.reached - now
	if kept > uint64(maxEvents) || int64(kept)*100 > maxBytes {
		t.Fatalf("%d events are kept, of %d with %d bytes", kept, maxEvents, maxBytes)
	}
	if maxBytes == 1<<20 && kept != min(uint64(maxEvents), uint64(len(m.all))) {
		t.Fatalf("%d events of %d are kept, with room for %d", kept, len(m.all), maxEvents)
	}
	return now
}

func said(all []events.Event) (s []told) {
	for _, e := range all {
		s = append(s, told{e.Type.String(), e.Revision, e.Path})
	}
	return s
}
