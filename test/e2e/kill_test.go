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

// TestKilledMasterUnderLoad: repeated kill -9 of the master loses no
// acknowledged change.
func TestKilledMasterUnderLoad(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{})
	master := c.Ready(t)
	l := startLoad(t, c, 12)
	watchLeases(t, c, false)
	for range 3 {
		l.progress(t, 100)
		killed := time.Now()
		must(t, master.Kill())
		old := master
		master = newMaster(t, c, old)
		l.progress(t, 100)
		t.Logf("%s was killed, %s took over; the gap in service was %v", old.ID, master.ID, l.gap(killed).Round(time.Millisecond))
		must(t, old.Start())
		master = c.Ready(t)
	}
	l.end(t)
}

// TestRepeatedCallAfterTheMasterDied: the master dies after a commit and before
// its answer. The repeated call gets the same grant, or the same session.
//
// To suppress the answers, the network drops everything from the master to the
// forwarding replica; the third replica's state shows that the calls were
// committed.
func TestRepeatedCallAfterTheMasterDied(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm, Network: true})
	master := c.Ready(t)
	forwarder, witness := c.Others(master)[0], c.Others(master)[1]
	session := open(t, master, aWhile)
	const path, key, name = "/died", "a key of this test", "opened by a dead master"

	c.Network().CutOneWay(master.ID, forwarder.ID)
	locking := beginOnce[lockapi.Grant](t, forwarder, http.MethodPut, lockRoute(path), ask(session.ID, "h", 0))
	opening := make(chan error, 1)
	go func() {
		_, err := openWithKey(cell.Bounded(t), forwarder, key, name, aWhile)
		opening <- err
	}()
	var committed lockapi.Lock
	var opened string
	must(t, cell.Wait(cell.Bounded(t), "the witness has both calls", func(ctx context.Context) (err error) {
		if committed, err = staleLock(ctx, witness, path); err != nil {
			return err
		}
		var list lockapi.SessionList
		if _, err = witness.Call(ctx, http.MethodGet, lockapi.RouteSessions+"?consistency=stale", nil, &list); err != nil {
			return err
		}
		for _, s := range list.Sessions {
			if s.Name == name {
				opened = s.ID
			}
		}
		if len(committed.Holders) == 0 || opened == "" {
			return fmt.Errorf("it shows %+v and session %q", committed, opened)
		}
		return nil
	}))
	must(t, master.Kill())
	wantCode(t, "the call for the lock", await(t, "the call for the lock", locking).err, lockapi.CodeOutcomeUnknown)
	wantCode(t, "the call for a session", <-opening, lockapi.CodeOutcomeUnknown)

	newMaster(t, c, master)
	var again lockapi.Grant
	_, err := cell.Insist(cell.Bounded(t), []*cell.Replica{forwarder, witness}, http.MethodPut, lockRoute(path), ask(session.ID, "h", 0), &again)
	must(t, err)
	wantHolder(t, committed, again)
	must(t, cell.Wait(cell.Bounded(t), "the same session is returned", func(ctx context.Context) error {
		s, err := openWithKey(ctx, witness, key, name, aWhile)
		if err == nil && s.ID != opened {
			t.Errorf("the repeated call opened session %s beside %s", s.ID, opened)
		}
		return err
	}))
}
