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
			links = append(links, fmt.Sprintf("%s %s", l.Wait.Session, l.Wait.Path))
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
		{"two", func(c *cell) { c.ask("a", "/1"); c.ask("b", "/2"); c.ask("a", "/2"); c.ask("b", "/1") }, "a /2, b /1"},
		{"three, and one who waits for them", func(c *cell) {
			for i, s := range []string{"a", "b", "c"} {
				c.ask(s, fmt.Sprint("/", i))
			}
			c.ask("d", "/0")
			for i, s := range []string{"c", "a", "b"} {
				c.ask(s, fmt.Sprint("/", i))
			}
		}, "a /1, b /2, c /0"},
		{"oneself", func(c *cell) { c.ask("a", "/1"); c.ask("a", "/1", handle("h")) }, "a /1"},
		{"behind another's place", func(c *cell) {
			c.ask("d", "/1")
			c.ask("a", "/2")
			c.ask("b", "/1")
			c.ask("b", "/2")
			c.ask("a", "/1")
		}, ""},
		{"three who only queue", func(c *cell) {
			c.ask("d", "/1")
			c.ask("e", "/2")
			for _, s := range []string{"a", "b", "c"} {
				c.ask(s, "/1")
			}
			for _, s := range []string{"c", "b", "a"} {
				c.ask(s, "/2")
			}
		}, ""},
		{"a reader behind a writer", func(c *cell) {
			c.ask("a", "/1", shared(0))
			c.ask("b", "/2")
			c.ask("c", "/1")
			c.ask("b", "/1", shared(0))
			c.ask("a", "/2")
		}, "a /2, b /1"},
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
		}, "a /2, b /1; c /2, b /1"},
		{"a lock-delay ends by itself", func(c *cell) {
			c.ask("d", "/1", func(op *state.Acquire) { op.DelayMS = 1000 })
			c.ask("a", "/2")
			c.do(&state.ExpireSession{Session: "d"})
			c.ask("a", "/1")
			c.ask("b", "/2")
		}, ""},
		{"two cycles", func(c *cell) {
			for _, s := range []string{"a", "b", "c", "d"} {
				c.ask(s, "/"+s)
			}
			for _, pair := range []string{"ab", "ba", "cd", "dc", "ac"} {
				c.ask(pair[:1], "/"+pair[1:])
			}
		}, "c /d, d /c; a /b, b /a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cell := newCell("a", "b", "c", "d", "e")
			c.asks(cell)
			found := find(t, cell.State, 10)
			if got := text(found); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if one := find(t, cell.State, 1); len(one) != min(1, len(found)) {
				t.Errorf("%d cycles where one is wanted", len(one))
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
// package: all of the first set must proceed, or one of the second.
func (n *naive) blocks(w *state.Wait) (all, some map[string]bool) {
	all, some = map[string]bool{}, map[string]bool{}
	exclusive := w.Mode == state.Exclusive
	for ahead := range n.s.Queue(w.Path) {
		if ahead == w {
			break
		}
		exclusive = exclusive || ahead.Mode == state.Exclusive
	}
	holders := slices.Collect(n.s.Holders(w.Path))
	for _, h := range holders {
		switch {
		case exclusive || h.Mode == state.Exclusive:
			all[h.Session] = true
		case h.Limit > 0 && int64(len(holders)) >= h.Limit:
			some[h.Session] = true
		}
	}
	return all, some
}

func (n *naive) kept(w *state.Wait) bool {
	all, some := n.blocks(w)
	for id := range n.stuck {
		if all[id] {
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
			for _, w := range s.HoldsAndWaits(id) {
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

// inWay reports whether a blocked session's hold blocks a wait of another.
func (n *naive) inWay(w *state.Wait, other string) bool {
	all, some := n.blocks(w)
	return n.stuck[other] && n.kept(w) && (all[other] || some[other])
}

// reached returns the sessions that can be reached from one.
func (n *naive) reached(id string) map[string]bool {
	reached := map[string]bool{}
	for again := true; again; {
		again = false
		for w := range n.s.Waits() {
			for other := range n.stuck {
				if (w.Session == id || reached[w.Session]) && !reached[other] && n.inWay(w, other) {
					reached[other], again = true, true
				}
			}
		}
	}
	return reached
}

// TestAgainstNaive: each link follows the rules. Each session in a cycle, by a
// naive search, is in a reported cycle.
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
				if l.Hold.Session != next || !n.inWay(l.Wait, next) {
					t.Fatalf("link %d of %s is none", i, text(found))
				}
				shown[l.Wait.Session] = true
			}
		}
		for _, id := range sessions {
			if n.reached(id)[id] && !shown[id] {
				t.Fatalf("%s is in a cycle, and found is %s", id, text(found))
			}
		}
	})
}
