package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// calmLease is the master's lease under calm settings.
const calmLease = 3 * time.Second

// TestIsolatedMaster: an isolated master answers no linearizable read once its
// lease is over, reports within a bound that there is no master, and still
// serves stale reads. The others elect a master; after the heal all agree.
func TestIsolatedMaster(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm, Network: true})
	old := c.Ready(t)
	watchLeases(t, c, false)
	const path = "/isolated"
	s := open(t, old, aWhile)
	before := acquire(t, old, path, ask(s.ID, "before", 0))
	waiting := beginOnce[lockapi.Grant](t, old, http.MethodPut, lockRoute(path), ask(s.ID, "waiting", aWhile))
	wantWaiters(t, old, path, 1)

	c.Network().Isolate(old.ID)
	isolated := time.Now()
	last := readWhileMaster(t, old, path)
	if last.After(isolated.Add(calmLease)) {
		t.Errorf("a read sent %v after the cut was answered; the lease is %v", last.Sub(isolated), calmLease)
	}
	t.Logf("the last read that was answered was sent %v after the cut", last.Sub(isolated))
	_, err := old.Call(cell.Bounded(t), http.MethodPut, lockRoute(path), ask(s.ID, "isolated", 0), nil)
	wantCode(t, "an acquire at the isolated master", err, lockapi.CodeNoMaster, lockapi.CodeOutcomeUnknown)
	wantNoMaster(t, old, s.ID)
	wantCode(t, "the call that waited", await(t, "the call that waited", waiting).err, lockapi.CodeOutcomeUnknown, lockapi.CodeNoMaster)
	l, err := staleLock(cell.Bounded(t), old, path)
	must(t, err)
	wantHolder(t, l, before)

	master := newMaster(t, c, old)
	wantHolder(t, read(t, master, path), before)
	release(t, master, before)
	c.Network().Heal()
	c.Ready(t)
	// The waiting call's outcome was unknown: its queue position may have
	// become a grant.
	if l := read(t, old, path); len(l.Holders) == 1 && l.Holders[0].Handle != "waiting" {
		t.Errorf("after the cut is healed: %+v", l)
	}
	after := acquire(t, old, "/isolated/after", ask(s.ID, "", 0))
	if after.Token <= before.Token {
		t.Errorf("token %d after %d", after.Token, before.Token)
	}
}

// readWhileMaster reads at a replica as long as it answers by itself. It
// returns the time when the last answered read was sent.
func readWhileMaster(t *testing.T, r *cell.Replica, path string) (last time.Time) {
	t.Helper()
	must(t, cell.Wait(cell.Bounded(t), r.ID+" stops answering", func(context.Context) error {
		sent := time.Now()
		_, err := request(cell.Bounded(t), r, http.MethodGet, lockRoute(path), &lockapi.Lock{})
		if err == nil {
			last = sent
			return fmt.Errorf("it still answers")
		}
		wantCode(t, "a read at "+r.ID, err, lockapi.CodeNoMaster, lockapi.CodeNotMaster)
		return nil
	}))
	return last
}

// TestOneWayCuts: a master that cannot send, or cannot receive, is replaced. A
// master that cannot reach one of the replicas keeps its office. There is never
// more than one lease.
func TestOneWayCuts(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Network: true})
	master := c.Ready(t)
	watchLeases(t, c, false)
	var highest uint64
	s := open(t, master, aWhile)
	for i, cut := range []struct {
		name     string
		cut      func(master, a, b string)
		replaced bool
	}{
		{"the master cannot send to one replica", func(m, a, _ string) { c.Network().CutOneWay(m, a) }, false},
		{"the master cannot receive from one replica", func(m, a, _ string) { c.Network().CutOneWay(a, m) }, false},
		{"the master cannot send", func(m, a, b string) {
			c.Network().CutOneWay(m, a)
			c.Network().CutOneWay(m, b)
		}, true},
		{"the master cannot receive", func(m, a, b string) {
			c.Network().CutOneWay(a, m)
			c.Network().CutOneWay(b, m)
		}, true},
	} {
		master = c.Ready(t)
		others := c.Others(master)
		cut.cut(master.ID, others[0].ID, others[1].ID)
		serving := others
		if cut.replaced {
			newMaster(t, c, master)
		} else {
			serving = []*cell.Replica{others[1]}
		}
		for range 5 {
			var g lockapi.Grant
			path, handle := fmt.Sprintf("/cut/%d", i), fmt.Sprint(highest)
			_, err := cell.Insist(cell.Bounded(t), serving, http.MethodPut, lockRoute(path), ask(s.ID, handle, 0), &g)
			must(t, err)
			if g.Token <= highest {
				t.Errorf("%s: token %d after %d", cut.name, g.Token, highest)
			}
			highest = g.Token
			_, err = cell.Insist(cell.Bounded(t), serving, http.MethodDelete, releaseRoute(path, s.ID, handle, g.Token), nil, nil)
			must(t, err)
		}
		c.Network().Heal()
		for _, r := range c.Replicas() {
			c.Ready(t)
			var l lockapi.Lock
			_, err := cell.Insist(cell.Bounded(t), []*cell.Replica{r}, http.MethodGet, lockRoute(fmt.Sprintf("/cut/%d", i)), nil, &l)
			must(t, err)
			if l.State != lockapi.StateFree {
				t.Errorf("%s: %s reads %+v", cut.name, r.ID, l)
			}
		}
	}
}
