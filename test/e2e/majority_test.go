package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// noMasterBound is how long a call may take to return no_master: a search of
// two seconds on a very busy machine.
const noMasterBound = 30 * time.Second

// wantNoMaster makes every kind of call at a replica without a master. Each
// gets the error within a bound, even if it would wait longer.
func wantNoMaster(t *testing.T, r *cell.Replica, session string) {
	t.Helper()
	began := time.Now()
	calls := map[string]<-chan answer[struct{}]{}
	for _, k := range []struct {
		method, target string
		in             any
	}{
		{http.MethodPost, lockapi.RouteSessions, nil},
		{http.MethodGet, lockapi.RouteSessions, nil},
		{http.MethodGet, sessionRoute(session), nil},
		{http.MethodPost, sessionRoute(session) + "/keepalive", nil},
		{http.MethodPost, sessionRoute(session) + "/keepalive", lockapi.KeepaliveRequest{WaitMS: lockapi.MaxWaitMS}},
		{http.MethodDelete, sessionRoute("nobody"), nil},
		{http.MethodPut, lockRoute("/none"), ask(session, "", 0)},
		{http.MethodPut, lockRoute("/none"), ask(session, "waits", lockapi.MaxWaitMS*time.Millisecond)},
		{http.MethodGet, lockRoute("/none"), nil},
		{http.MethodGet, lockapi.RouteLocks, nil},
		{http.MethodDelete, releaseRoute("/none", session, "", 0), nil},
		{http.MethodGet, lockapi.RouteSequencers + "?value=exclusive:1:/none", nil},
		{http.MethodPost, lockapi.RouteTransfer, nil},
		{http.MethodGet, lockapi.RouteReady, nil},
	} {
		calls[fmt.Sprintf("%s %s %+v", k.method, k.target, k.in)] = beginOnce[struct{}](t, r, k.method, k.target, k.in)
	}
	for name, got := range calls {
		a := await(t, name, got)
		wantCode(t, name, a.err, lockapi.CodeNoMaster)
		if a.took > noMasterBound {
			t.Errorf("%s: the answer that there is no master took %v", name, a.took)
		}
	}
	t.Logf("%d calls at %s got the answer that there is no master within %v", len(calls), r.ID, time.Since(began).Round(time.Millisecond))
}

// TestWithoutAMajority: one replica of three alone serves only stale reads, and
// lets no call hang. When another one returns, everything works again. The
// remaining replica is first the master, then a follower.
func TestWithoutAMajority(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm})
	s := open(t, c.Ready(t), aWhile)
	g := acquire(t, c.Replicas()[0], "/majority", ask(s.ID, "", 0))
	for _, role := range []string{lockapi.RoleMaster, lockapi.RoleReplica} {
		master := c.Ready(t)
		left := master
		if role == lockapi.RoleReplica {
			left = c.Others(master)[0]
		}
		must(t, cell.Wait(cell.Bounded(t), left.ID+" has everything", func(ctx context.Context) error {
			l, err := staleLock(ctx, left, "/majority")
			if err == nil && len(l.Holders) == 0 {
				err = errors.New("not yet")
			}
			return err
		}))
		waiting := beginOnce[lockapi.Grant](t, left, http.MethodPut, lockRoute("/majority"), ask(s.ID, "waiting", aWhile))
		wantWaiters(t, master, "/majority", 1)
		for _, r := range c.Others(left) {
			must(t, r.Kill())
		}
		wantCode(t, "a call that waited", await(t, "a call that waited", waiting).err, lockapi.CodeOutcomeUnknown, lockapi.CodeNoMaster)
		must(t, cell.Wait(cell.Bounded(t), left.ID+" knows no master", func(ctx context.Context) error {
			view, err := left.Cell(ctx)
			if err == nil && (view.Master != nil || view.Lease.Held || view.Sessions != nil) {
				err = fmt.Errorf("%+v", view)
			}
			if err != nil {
				return err
			}
			if _, err = left.Call(ctx, http.MethodGet, lockapi.RouteReady, nil, nil); err == nil {
				return errors.New("it is ready")
			}
			return nil
		}))
		wantNoMaster(t, left, s.ID)
		wantAlone(t, left, g)
		for _, r := range c.Others(left) {
			must(t, r.Start())
		}
		c.Ready(t)
		for _, r := range c.Replicas() {
			wantOneHolder(t, r, g)
			release(t, r, acquire(t, r, "/majority/again", ask(s.ID, r.ID, 0)))
		}
		// The waiting call got an unknown outcome; it is settled now.
		call[lockapi.Released](t, left, http.MethodDelete, releaseRoute("/majority", s.ID, "waiting", 0), nil)
	}
}

func wantOneHolder(t *testing.T, r *cell.Replica, g lockapi.Grant) {
	t.Helper()
	wantHolder(t, read(t, r, g.Path), g)
}

// wantAlone checks what a replica without a master still serves.
func wantAlone(t *testing.T, r *cell.Replica, g lockapi.Grant) {
	t.Helper()
	l, err := staleLock(cell.Bounded(t), r, g.Path)
	must(t, err)
	wantHolder(t, l, g)
	call[lockapi.Replica](t, r, http.MethodGet, lockapi.RouteReplica, nil)
	call[struct{}](t, r, http.MethodGet, lockapi.RouteLive, nil)
	resp, err := r.Via().Get(r.URL + lockRoute(g.Path))
	must(t, err)
	resp.Body.Close()
	if retry := resp.Header.Get("Retry-After"); retry == "" || strings.Trim(retry, "0123456789") != "" {
		t.Errorf("%d has Retry-After %q", resp.StatusCode, retry)
	}
}
