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

// transferTo transfers mastership to a replica; on a busy machine that may take
// more than one try.
func transferTo(t *testing.T, c *cell.Cell, at, to *cell.Replica) {
	t.Helper()
	must(t, cell.Wait(cell.Bounded(t), to.ID+" is master", func(context.Context) error {
		// A try's own context would be shorter than an election.
		var got lockapi.Transferred
		_, err := at.Call(cell.Bounded(t), http.MethodPost, lockapi.RouteTransfer, lockapi.TransferRequest{To: to.ID}, &got)
		if err != nil {
			t.Logf("transfer to %s at %s: %v", to.ID, at.ID, err)
			return err
		}
		if got.Master != to.ID {
			return fmt.Errorf("%q is master", got.Master)
		}
		return nil
	}))
}

// TestTransferUnderLoad transfers mastership by the API, to a named replica and
// to any, through the master and through others; no acknowledged write is lost.
func TestTransferUnderLoad(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: still})
	master := c.Ready(t)
	refusedTransfers(t, c, master)
	l := startLoad(t, c, 8)
	watchLeases(t, c, true)
	for i := range 4 {
		l.progress(t, 60)
		began := time.Now()
		epoch := call[lockapi.Cell](t, master, http.MethodGet, lockapi.RouteCell, nil).Epoch
		to := c.Others(master)[i%2]
		at := append(c.Others(master), master)[i%3]
		if i == 3 {
			got := call[lockapi.Transferred](t, at, http.MethodPost, lockapi.RouteTransfer, nil)
			if got.Master == master.ID {
				t.Errorf("a transfer to any left %s", got.Master)
			}
			to = c.Replica(got.Master)
		} else {
			transferTo(t, c, at, to)
		}
		l.progress(t, 60)
		t.Logf("from %s to %s by a call to %s; the gap in service was %v", master.ID, to.ID, at.ID, l.gap(began).Round(time.Millisecond))
		if now := c.Ready(t); now != to {
			t.Errorf("%s is master, not %s", now.ID, to.ID)
		}
		if view := call[lockapi.Cell](t, to, http.MethodGet, lockapi.RouteCell, nil); view.Epoch <= epoch {
			t.Errorf("epoch %d after %d", view.Epoch, epoch)
		}
		master = to
	}
	l.end(t)
}

func refusedTransfers(t *testing.T, c *cell.Cell, master *cell.Replica) {
	t.Helper()
	before := call[lockapi.Cell](t, master, http.MethodGet, lockapi.RouteCell, nil)
	for _, r := range c.Replicas() {
		_, err := cell.Insist(cell.Bounded(t), []*cell.Replica{r}, http.MethodPost, lockapi.RouteTransfer, lockapi.TransferRequest{To: "r9"}, nil)
		wantCode(t, "a transfer to nobody", err, lockapi.CodeInvalidArgument)
		got := call[lockapi.Transferred](t, r, http.MethodPost, lockapi.RouteTransfer, lockapi.TransferRequest{To: master.ID})
		if got.Master != master.ID {
			t.Errorf("a transfer to the master itself made %q the master", got.Master)
		}
	}
	if after := call[lockapi.Cell](t, master, http.MethodGet, lockapi.RouteCell, nil); after.Epoch != before.Epoch {
		t.Errorf("transfers that change nothing took the epoch from %d to %d", before.Epoch, after.Epoch)
	}
}

// patience is less than the limit of a stop in slowToStop: a longer stop has
// waited for something.
const patience = time.Minute

// slowToStop are the arguments of replicas that must not need the limit of a
// stop.
var slowToStop = append([]string{"--shutdown-timeout=2m"}, still...)

// TestTerminatedMaster: on SIGTERM the master hands over, releases its waiting
// calls, and exits with 0.
func TestTerminatedMaster(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: slowToStop})
	master := c.Ready(t)
	l := startLoad(t, c, 8)
	watchLeases(t, c, true)
	const path = "/terminated"
	held := acquire(t, master, path, ask(open(t, master, aWhile).ID, "", 0))
	waiter := open(t, master, aWhile)
	lock := beginOnce[lockapi.Grant](t, master, http.MethodPut, lockRoute(path), ask(waiter.ID, "direct", aWhile))
	forwarded := beginOnce[lockapi.Grant](t, c.Others(master)[0], http.MethodPut, lockRoute(path), ask(waiter.ID, "forwarded", aWhile))
	alive := beginOnce[lockapi.Keepalive](t, master, http.MethodPost, sessionRoute(waiter.ID)+"/keepalive", lockapi.KeepaliveRequest{WaitMS: aWhile.Milliseconds()})
	wantWaiters(t, master, path, 2)
	l.progress(t, 100)

	began := time.Now()
	must(t, master.Terminate(cell.Bounded(t))) // checks the exit code
	stopped := time.Since(began)
	if stopped > patience {
		t.Errorf("it took %v to stop; calls that wait ought to be released at once", stopped)
	}
	wantCode(t, "a waiting call at the master", await(t, "a waiting call at the master", lock).err, lockapi.CodeOutcomeUnknown, lockapi.CodeNoMaster)
	wantCode(t, "a forwarded one", await(t, "a forwarded one", forwarded).err, lockapi.CodeOutcomeUnknown)
	wantCode(t, "a waiting keepalive", await(t, "a waiting keepalive", alive).err, lockapi.CodeOutcomeUnknown, lockapi.CodeNoMaster)
	next := newMaster(t, c, master)
	l.progress(t, 100)
	t.Logf("%s stopped in %v; the gap in service was %v", master.ID, stopped.Round(time.Millisecond), l.gap(began).Round(time.Millisecond))
	wantHolder(t, read(t, next, path), held)
	l.end(t)
}
