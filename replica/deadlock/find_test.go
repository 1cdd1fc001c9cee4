package deadlock_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/replica/deadlock"
	"github.com/stoutlock/stout/replica/state"
)

// cell is a state to which commands are applied.
type cell struct {
	*state.State
	index uint64
}

func newCell(sessions ...string) *cell {
	c := &cell{State: state.New()}
	c.do(&state.OpenOffice{Master: "r1", Term: 1})
	for _, id := range sessions {
		c.do(&state.OpenSession{Session: id, TTLMS: 1000})
	}
	return c
}

func (c *cell) do(op state.Operation) {
	c.index++
	b := state.Batch{Epoch: c.Epoch, LeaseMS: 1000, Commands: []state.Command{{Operation: op}}}
	c.State, _ = c.Apply(c.index, 1, b)
}

// ask makes a session request a lock and wait for it.
func (c *cell) ask(session, path string, more ...func(*state.Acquire)) {
	op := &state.Acquire{Session: session, Path: path, Mode: state.Exclusive, Wait: state.Persistent}
	for _, f := range more {
		f(op)
	}
	c.do(op)
}

// find returns cycles of a state.
func find(t interface{ Fatal(...any) }, s *state.State, most int) []deadlock.Cycle {
	found, err := deadlock.Find(context.Background(), s, most)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func shared(limit int64) func(*state.Acquire) {
	return func(op *state.Acquire) { op.Mode, op.Limit = state.Shared, limit }
}

func handle(h string) func(*state.Acquire) { return func(op *state.Acquire) { op.Handle = h } }

// text describes cycles: each session with the lock and the session for which
// it waits.
func text(cycles []deadlock.Cycle) string {
	var all []string
	for _, c := range cycles {
		var links []string
		for _, l := range c {
			why := "ahead"
			if l.Hold != nil {
				why = "holds"
			}
			links = append(links, fmt.Sprintf("%s %s %s", l.Wait.Session, l.Wait.Path, why))
		}
		all = append(all, strings.Join(links, ", "))
	}
	return strings.Join(all, "; ")
}

func TestCycles(t *testing.T) {
	for _, c := range []struct {
		name string
		asks func(c *cell)
		want string
	}{
		{"nobody waits", func(c *cell) { c.ask("a", "/1"); c.ask("b", "/2") }, ""},
		{"a chain", func(c *cell) { c.ask("a", "/1"); c.ask("b", "/2"); c.ask("b", "/1"); c.ask("c", "/2") }, ""},
		{"two", func(c *cell) { c.ask("a", "/1"); c.ask("b", "/2"); c.ask("a", "/2"); c.ask("b", "/1") }, "a /2 holds, b /1 holds"},
		{"three, and one who waits for them", func(c *cell) {
			for i, s := range []string{"a", "b", "c"} {
				c.ask(s, fmt.Sprint("/", i))
			}
			c.ask("d", "/0")
			for i, s := range []string{"c", "a", "b"} {
				c.ask(s, fmt.Sprint("/", i))
			}
		}, "a /1 holds, b /2 holds, c /0 holds"},
		{"oneself", func(c *cell) { c.ask("a", "/1"); c.ask("a", "/1", handle("h")) }, "a /1 holds"},
		{"behind another's place", func(c *cell) {
			c.ask("d", "/1")
			c.ask("a", "/2")
			c.ask("b", "/1")
			c.ask("b", "/2")
			c.ask("a", "/1")
		}, "a /1 ahead, b /2 holds"},
		{"readers do not wait for each other", func(c *cell) {
			c.ask("d", "/1")
			c.ask("a", "/2")
			c.ask("b", "/1", shared(0))
			c.ask("b", "/2")
			c.ask("a", "/1", shared(0))
		}, ""},
		{"a semaphore with one who gets on", func(c *cell) {
			c.ask("a", "/1", shared(2))
			c.ask("c", "/1", shared(2))
			c.ask("b", "/2")
			c.ask("a", "/2")
			c.ask("b", "/1", shared(2))
		}, ""},
		{"a semaphore with one who gets on behind another", func(c *cell) {
			c.ask("a", "/1", shared(2))
			c.ask("c", "/1", shared(2))
			c.ask("e", "/3")
			c.ask("d", "/3", shared(0))
			c.ask("c", "/3")
			c.ask("b", "/2")
			c.ask("a", "/2")
			c.ask("b", "/1", shared(2))
		}, ""},
		{"a semaphore all of whose holders wait", func(c *cell) {
			c.ask("a", "/1", shared(2))
			c.ask("c", "/1", shared(2))
			c.ask("b", "/2")
			c.ask("a", "/2")
			c.ask("c", "/2")
			c.ask("b", "/1", shared(2))
		}, "a /2 holds, b /1 holds; c /2 holds, b /1 holds"},
		{"a lock-delay ends by itself", func(c *cell) {
			c.ask("d", "/1", func(op *state.Acquire) { op.DelayMS = 1000 })
			c.ask("a", "/2")
			c.do(&state.ExpireSession{Session: "d"})
			c.ask("a", "/1")
			c.ask("b", "/2")
		}, ""},
		{"two circles", func(c *cell) {
			for _, s := range []string{"a", "b", "c", "d"} {
				c.ask(s, "/"+s)
			}
			for _, pair := range []string{"ab", "ba", "cd", "dc", "ac"} {
				c.ask(pair[:1], "/"+pair[1:])
			}
		}, "c /d holds, d /c holds; a /b holds, b /a holds"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cell := newCell("a", "b", "c", "d", "e")
			c.asks(cell)
			found := find(t, cell.State, 10)
			if got := text(found); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if one := find(t, cell.State, 1); len(one) != min(1, len(found)) {
				t.Errorf("%d circles where one is wanted", len(one))
			}
		})
	}
}

// naive determines the obstacles of sessions by the literal rules.
type naive struct {
	s     *state.State
	stuck map[string]bool
}

// blocks returns the sets of sessions that block a wait, by the rules of the
// package. All holders and earlier positions must go; in a full semaphore one
// holder suffices.
func (n *naive) blocks(w *state.Wait) (holds, places, some map[string]bool) {
	holds, places, some = map[string]bool{}, map[string]bool{}, map[string]bool{}
	holders := slices.Collect(n.s.Holders(w.Path))
	for _, h := range holders {
		switch {
		case w.Mode == state.Exclusive || h.Mode == state.Exclusive:
			holds[h.Session] = true
		case h.Limit > 0 && int64(len(holders)) >= h.Limit:
			some[h.Session] = true
		}
	}
	for other := range n.s.Queue(w.Path) {
		if other.Seq < w.Seq && (w.Mode == state.Exclusive || other.Mode == state.Exclusive) {
			places[other.Session] = true
		}
	}
	return holds, places, some
}

func (n *naive) kept(w *state.Wait) bool {
	holds, places, some := n.blocks(w)
	for id := range n.stuck {
		if holds[id] || places[id] {
			return true
		}
	}
	for id := range some {
		if !n.stuck[id] {
			return false
		}
	}
	return len(some) > 0
}

func newNaive(s *state.State) *naive {
	n := &naive{s, map[string]bool{}}
	for w := range s.Waits() {
		n.stuck[w.Session] = true
	}
	for again := true; again; {
		again = false
		for id := range maps.Clone(n.stuck) {
			kept := false
			for _, w := range s.Claims(id) {
				kept = kept || w != nil && n.kept(w)
			}
			if !kept {
				delete(n.stuck, id)
				again = true
			}
		}
	}
	return n
}

// inWay reports whether a blocked session blocks one of another's waits: by a
// hold or, unless held is set, by an earlier position.
func (n *naive) inWay(w *state.Wait, other string, held bool) bool {
	if !n.stuck[w.Session] || !n.stuck[other] {
		return false
	}
	holds, places, some := n.blocks(w)
	for id := range some {
		if !n.stuck[id] {
			some = nil
			break
		}
	}
	return holds[other] || some[other] || !held && places[other]
}

// reached returns the sessions that can be reached from one.
func (n *naive) reached(id string, held bool) map[string]bool {
	reached := map[string]bool{}
	for again := true; again; {
		again = false
		for w := range n.s.Waits() {
			for other := range n.stuck {
				if (w.Session == id || reached[w.Session]) && !reached[other] && n.inWay(w, other, held) {
					reached[other], again = true, true
				}
			}
		}
	}
	return reached
}

// TestAgainstNaive: each link follows the rules. Each session in a cycle of
// holds, by a naive search, is in a reported cycle. Each session in another
// cycle can reach a reported one, and be reached from it.
func TestAgainstNaive(t *testing.T) {
	sessions, paths := []string{"a", "b", "c", "d", "e"}, []string{"/1", "/2", "/3", "/4"}
	rapid.Check(t, func(t *rapid.T) {
		c := newCell(sessions...)
		for range rapid.IntRange(0, 25).Draw(t, "asks") {
			session, path := rapid.SampledFrom(sessions).Draw(t, "session"), rapid.SampledFrom(paths).Draw(t, "path")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				c.do(&state.Release{Session: session, Path: path})
			case 1, 2, 3:
				c.ask(session, path, shared(int64(path[1]-'1')), handle(rapid.SampledFrom([]string{"", "h"}).Draw(t, "handle")))
			default:
				c.ask(session, path)
			}
		}
		n := newNaive(c.State)
		found := find(t, c.State, 100)
		shown := map[string]bool{}
		for _, cycle := range found {
			for i, l := range cycle {
				next := cycle[(i+1)%len(cycle)].Wait.Session
				if to := l.Hold; to != nil && to.Session != next || l.Hold == nil && l.Ahead.Session != next || !n.inWay(l.Wait, next, l.Hold != nil) {
					t.Fatalf("link %d of %s is none", i, text(found))
				}
				shown[l.Wait.Session] = true
			}
		}
		for _, id := range sessions {
			if n.reached(id, true)[id] && !shown[id] {
				t.Fatalf("%s is in a circle, and found is %s", id, text(found))
			}
			from := n.reached(id, false)
			if !from[id] {
				continue
			}
			ok := false
			for other := range shown {
				ok = ok || from[other] && n.reached(other, false)[id]
			}
			if !ok {
				t.Fatalf("%s is in a circle of places, and found is %s", id, text(found))
			}
		}
	})
}

// BenchmarkFind: 10 000 sessions that wait for one lock.
func BenchmarkFind(b *testing.B) {
	c := newCell()
	for i := range 10_000 {
		id := fmt.Sprint(i)
		c.do(&state.OpenSession{Session: id, TTLMS: 1000})
		c.ask(id, "/l")
	}
	for b.Loop() {
		if find(b, c.State, 1) != nil {
			b.Fatal("a circle")
		}
	}
}
