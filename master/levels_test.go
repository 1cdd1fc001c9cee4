package master

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// TestLevelIsRaisedWhenAllKnowIt: the level waits for every member, including
// an absent one and a nonvoter. The next master raises it, too.
func TestLevelIsRaisedWhenAllKnowIt(t *testing.T) {
	inCell(t, 3, Options{Drift: drift, Level: 2}, func(t *testing.T, c *fakeCell) {
		level := func(when string, want uint64) {
			t.Helper()
			pass(time.Minute)
			for _, n := range c.nodes {
				if n.leads() && n.State().Level != want {
					t.Errorf("%s the cell is at level %d, want %d", when, n.State().Level, want)
				}
			}
		}
		c.office("r1")
		level("with releases of level 1", 1)
		c.set(func(f *fakeConf) { f.level = map[string]uint64{founder("r1"): 2, founder("r2"): 3} })
		level("with two of three", 1)
		c.set(func(f *fakeConf) { f.level[founder("r3")] = 2; delete(f.at, "r3") })
		level("while the third is away", 1)
		c.set(func(f *fakeConf) {
			f.at["r3"] = founder("r3")
			f.change(membership.AddNonvoter, standing("r2", newDirectory, false)) // no process runs with it
		})
		level("with one that has no vote and tells nothing", 1)
		c.set(func(f *fakeConf) { f.change(membership.RemoveMember, standing("r2", newDirectory, false)) })
		level("when all know it", 2)
	})
}

// TestEndSessionRaisesTheLevel: the first call after an upgrade succeeds, before
// the master asks the members by itself.
func TestEndSessionRaisesTheLevel(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		c.set(func(f *fakeConf) {
			f.level = map[string]uint64{founder("r1"): state.Level, founder("r2"): state.Level, founder("r3"): 1}
		})
		m := c.office("r1").master
		id := newSession(t, m, time.Minute)
		end := &lockapi.EndSession{Session: id}
		if err := m.EndSession(t.Context(), &Caller{}, end); !errors.Is(err, lockapi.CodeConflict) {
			t.Errorf("while a replica does not know it: %v", err)
		}
		c.set(func(f *fakeConf) { f.level[founder("r3")] = state.Level })
		if err := m.EndSession(t.Context(), &Caller{}, end); err != nil {
			t.Errorf("when all know it: %v", err)
		}
	})
}

// TestEarlyOperationsAreRefused: an operation of a later level never gets into
// the log.
func TestEarlyOperationsAreRefused(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		id := newSession(t, m, time.Minute)
		level := func(l uint64) {
			n.change(func(s *state.State) { s.Level = l })
		}
		// Nothing is applied at this instant: a renewal of the lease
		// would be applied to a state without a level.
		synctest.Wait()
		was := n.State().Level
		level(0) // every operation needs a higher level
		defer level(was)
		sent := len(n.sent())
		if err := m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: id}); !errors.Is(err, lockapi.CodeConflict) {
			t.Errorf("the error is %v", err)
		}
		for _, b := range n.sent()[sent:] {
			for _, c := range b.Commands {
				t.Errorf("%s was proposed", state.Name(c.Operation))
			}
		}
	})
}
