package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// smallQuotas are settings under which every quota is soon used up.
var smallQuotas = []string{"--heartbeat-timeout=2s", "--max-sessions=3", "--max-holds=8", "--max-waiters=2", "--max-session-holds=5"}

// refusedFor requires a 429 that names the quota.
func refusedFor(t *testing.T, r *cell.Replica, method, target string, in any, quota string) {
	t.Helper()
	var status int
	ctx := cell.Bounded(t)
	_, err := cell.Repeat(ctx, func(int) (err error) {
		status, err = r.Call(ctx, method, target, in, nil)
		return err
	})
	var e *lockapi.Error
	if !errors.As(err, &e) || e.Code != lockapi.CodeTooMany || !strings.Contains(e.Detail, "quota "+quota+" is used up") {
		t.Fatalf("%s %s at %s: %v, want a refusal by %s", method, target, r.ID, err, quota)
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("status %d", status)
	}
}

// TestQuotas uses each quota up, through every replica, and across a change of
// master. Refusals have no effect, existing holds and positions stay, and
// repeating their requests is never refused.
func TestQuotas(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: smallQuotas})
	master := c.Ready(t)
	for round := range 2 {
		fill(t, c, fmt.Sprintf("/q%d/", round))
		if round == 0 {
			must(t, master.Kill())
			next := newMaster(t, c, master)
			must(t, master.Start())
			master = next
			c.Ready(t)
		}
	}
}

// fill uses the quotas up and frees everything again.
func fill(t *testing.T, c *cell.Cell, prefix string) {
	t.Helper()
	r := c.Replicas()
	var sessions []lockapi.Session
	for i := range 3 {
		sessions = append(sessions, open(t, r[i], aWhile))
	}
	refusedFor(t, r[0], http.MethodPost, lockapi.RouteSessions, lockapi.SessionRequest{TTLMS: 12_000}, "max-sessions")

	a, b := sessions[0].ID, sessions[1].ID
	for i := range 5 {
		acquire(t, r[i%3], prefix+fmt.Sprint(i), ask(a, "", 0))
	}
	first := acquire(t, r[0], prefix+"0", ask(a, "", 0)) // again
	refusedFor(t, r[1], http.MethodPut, lockRoute(prefix+"5"), ask(a, "", 0), "max-session-holds")

	queued := ask(b, "1", 0)
	queued.Queue = true
	acquire(t, r[2], prefix+"0", queued)
	hot := begin[lockapi.Grant](t, r[1], http.MethodPut, lockRoute(prefix+"1"), ask(b, "2", aWhile))
	wantWaiters(t, r[0], prefix+"1", 1)
	refusedFor(t, r[2], http.MethodPut, lockRoute(prefix+"0"), ask(b, "3", aWhile), "max-waiters")
	acquire(t, r[0], prefix+"6", ask(b, "", 0))
	refusedFor(t, r[0], http.MethodPut, lockRoute(prefix+"7"), ask(sessions[2].ID, "", 0), "max-holds")
	if g := acquire(t, r[0], prefix+"0", queued); g.Position != 1 {
		t.Errorf("the place in the queue: %+v", g)
	}
	release(t, r[1], first)
	acquire(t, r[2], prefix+"7", ask(sessions[2].ID, "", 0))
	for _, s := range sessions {
		call[any](t, r[0], http.MethodDelete, sessionRoute(s.ID), nil)
	}
	if got := await(t, "the waiting call", hot); got.err != nil && !errors.Is(got.err, lockapi.CodeSessionNotFound) {
		t.Errorf("the waiting call: %+v, %v", got.out, got.err)
	}
}

// TestQuotasUnderConcurrency: concurrent calls at all replicas get no more than
// the quota allows, and a single call gets the remaining part.
func TestQuotasUnderConcurrency(t *testing.T) {
	t.Parallel()
	const room = 20
	c := cell.New(t, cell.Options{Args: []string{"--heartbeat-timeout=2s", fmt.Sprintf("--max-holds=%d", room)}})
	c.Ready(t)
	id := open(t, c.Replicas()[0], aWhile).ID
	errs := make([]error, 4*room)
	ctx := cell.Bounded(t)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			at := c.Replicas()[i%3:][:1]
			_, errs[i] = cell.Insist(ctx, at, http.MethodPut, lockRoute(fmt.Sprintf("/many/%d", i)), ask(id, "", 0), nil)
		})
	}
	all.Wait()
	granted := 0
	for _, err := range errs {
		if err == nil {
			granted++
		} else if !errors.Is(err, lockapi.CodeTooMany) {
			t.Error(err)
		}
	}
	held := func() int {
		return len(call[lockapi.SessionState](t, c.Replicas()[1], http.MethodGet, sessionRoute(id), nil).Holds)
	}
	if n := held(); granted != n || n > room || n == 0 {
		t.Errorf("%d were granted and %d are held, with room for %d", granted, n, room)
	}
	for i := range room { // without concurrent calls, a call is refused only if the quota is used up
		_, err := cell.Insist(ctx, c.Replicas()[:1], http.MethodPut, lockRoute(fmt.Sprintf("/more/%d", i)), ask(id, "", 0), nil)
		if granted++; (err == nil) != (granted <= room) {
			t.Errorf("the %dth hold: %v", granted, err)
		}
	}
	if n := held(); n != room {
		t.Errorf("%d are held, with room for %d", n, room)
	}
}

// TestMoreConnectionsThanOpenFiles: a setting above the limit on open files is
// refused at the start.
func TestMoreConnectionsThanOpenFiles(t *testing.T) {
	t.Parallel()
	c := cell.NewPrepared(t, cell.Options{Size: 1, Args: []string{"--max-connections=1000000000"}})
	r := c.Replicas()[0]
	must(t, r.Start())
	select {
	case <-r.Exited():
	case <-time.After(cell.Step):
		t.Fatal("it runs")
	}
	if code, _ := r.ExitState(); code != 78 || !strings.Contains(r.LogTail(3), `max-connections "1000000000" (flag --max-connections): the limit on open files is`) {
		t.Errorf("exit code %d\n%s", code, r.LogTail(3))
	}
}
