// Package e2e_test runs cells of real processes through the faults that they
// must survive: kills, restarts, partitions, stops of the master, broken
// connections. Each test has its own cell.
//
// Waits have a condition and a generous deadline. If a test asserts a time, its
// bound holds on a machine of any speed: it counts from an instant before the
// cell could have begun to count, or to an instant after it ended.
//
// On a busy machine a master may lose its office at any time. Helpers therefore
// repeat calls that found no master, or have an unknown outcome, as the
// contract allows any client to do. A test that wants one of these answers
// makes the call itself.
package e2e_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

func TestMain(m *testing.M) {
	testrun.Wait(8)
	os.Exit(testrun.Main(m.Run))
}

// aWhile is a ttl or a wait that is longer than any test.
const aWhile = 10 * time.Minute

// Settings that keep a master in office on a busy machine: calm in most cases,
// still for tests that fail otherwise. An election takes as long as this
// time-out.
var (
	calm  = []string{"--heartbeat-timeout=2s"}
	still = []string{"--heartbeat-timeout=5s"}
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newMaster(t *testing.T, c *cell.Cell, old *cell.Replica) *cell.Replica {
	t.Helper()
	var master *cell.Replica
	must(t, cell.Wait(cell.Bounded(t), "a successor is in office", func(ctx context.Context) (err error) {
		for _, r := range c.Others(old) {
			if master, err = r, isMaster(ctx, r); err == nil {
				return nil
			}
		}
		return err
	}))
	return master
}

// throughout repeats a check for as long as a few elections take, and ends the
// test at the first error.
func throughout(t *testing.T, look func() error) {
	t.Helper()
	tick, over := time.NewTicker(20*time.Millisecond), time.After(3*time.Second)
	defer tick.Stop()
	for {
		must(t, look())
		select {
		case <-tick.C:
		case <-over:
			return
		}
	}
}

// isMaster returns nil if the replica reports to be master with a lease.
func isMaster(ctx context.Context, r *cell.Replica) error {
	view, err := ownView(ctx, r)
	if err == nil && !view.Lease.Held {
		err = fmt.Errorf("%s holds no lease", r.ID)
	}
	return err
}

// call makes a call at a replica and requires success.
func call[T any](t *testing.T, r *cell.Replica, method, target string, in any) (out T) {
	t.Helper()
	if _, err := cell.Insist(cell.Bounded(t), []*cell.Replica{r}, method, target, in, &out); err != nil {
		t.Fatalf("%s %s at %s: %v", method, target, r.ID, err)
	}
	return out
}

func sessionRoute(id string) string { return lockapi.RouteSessions + "/" + id }

func lockRoute(path string) string { return lockapi.RouteLocks + lockapi.EscapePath(path) }

func releaseRoute(path, session, handle string, token uint64) string {
	q := url.Values{"session": {session}, "handle": {handle}}
	if token != 0 {
		q.Set("token", strconv.FormatUint(token, 10))
	}
	return lockRoute(path) + "?" + q.Encode()
}

// open opens one session, after any number of attempts.
func open(t *testing.T, r *cell.Replica, ttl time.Duration) (s lockapi.Session) {
	t.Helper()
	ctx, key := cell.Bounded(t), rand.Text()
	_, err := cell.Repeat(ctx, func(int) (err error) {
		s, err = openWithKey(ctx, r, key, "", ttl)
		return err
	})
	must(t, err)
	return s
}

// openWithKey makes one attempt to open a session with an idempotency key.
func openWithKey(ctx context.Context, r *cell.Replica, key, name string, ttl time.Duration) (s lockapi.Session, err error) {
	body := fmt.Sprintf(`{"name":%q,"ttl_ms":%d}`, name, ttl.Milliseconds())
	_, err = cell.Send(ctx, r.Via(), http.MethodPost, r.URL+lockapi.RouteSessions, http.Header{lockapi.HeaderIdempotencyKey: {key}}, []byte(body), &s)
	return s, err
}

// ask returns a request for an exclusive lock that waits for the given time.
func ask(session, handle string, wait time.Duration) lockapi.LockRequest {
	req := lockapi.NewLockRequest(session)
	req.Handle, req.WaitMS = handle, wait.Milliseconds()
	return req
}

func acquire(t *testing.T, r *cell.Replica, path string, req lockapi.LockRequest) lockapi.Grant {
	t.Helper()
	return call[lockapi.Grant](t, r, http.MethodPut, lockRoute(path), req)
}

func release(t *testing.T, r *cell.Replica, g lockapi.Grant) {
	t.Helper()
	var got lockapi.Released
	attempts, err := cell.Insist(cell.Bounded(t), []*cell.Replica{r}, http.MethodDelete, releaseRoute(g.Path, g.Session, g.Handle, g.Token), nil, &got)
	must(t, err)
	if !got.Released && attempts == 1 { // an earlier attempt may have released it
		t.Errorf("the release of %+v at %s found nothing", g, r.ID)
	}
}

func read(t *testing.T, r *cell.Replica, path string) lockapi.Lock {
	t.Helper()
	return call[lockapi.Lock](t, r, http.MethodGet, lockRoute(path), nil)
}

func wantHolder(t *testing.T, l lockapi.Lock, g lockapi.Grant) {
	t.Helper()
	if len(l.Holders) != 1 || l.Holders[0].Session != g.Session || l.Holders[0].Handle != g.Handle || l.Holders[0].Token != g.Token {
		t.Errorf("lock %s is %+v, want held by %+v", g.Path, l, g)
	}
}

func wantCode(t *testing.T, what string, err error, codes ...lockapi.Code) {
	t.Helper()
	for _, code := range codes {
		if errors.Is(err, code) {
			return
		}
	}
	t.Errorf("%s: %v, want one of %v", what, err, codes)
}

type answer[T any] struct {
	out  T
	err  error
	took time.Duration
}

// begin makes a call in the background, for as long as it takes.
func begin[T any](t *testing.T, r *cell.Replica, method, target string, in any) <-chan answer[T] {
	return inBackground(t, func(ctx context.Context, out *T) error {
		_, err := cell.Insist(ctx, []*cell.Replica{r}, method, target, in, out)
		return err
	})
}

// beginOnce is begin for a call that is never repeated.
func beginOnce[T any](t *testing.T, r *cell.Replica, method, target string, in any) <-chan answer[T] {
	return inBackground(t, func(ctx context.Context, out *T) error {
		_, err := r.Call(ctx, method, target, in, out)
		return err
	})
}

func inBackground[T any](t *testing.T, do func(ctx context.Context, out *T) error) <-chan answer[T] {
	got := make(chan answer[T], 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*cell.Step)
	go func() {
		defer cancel()
		var a answer[T]
		began := time.Now()
		a.err = do(ctx, &a.out)
		a.took = time.Since(began)
		got <- a
	}()
	return got
}

func await[T any](t *testing.T, what string, got <-chan answer[T]) answer[T] {
	t.Helper()
	select {
	case a := <-got:
		return a
	case <-cell.Bounded(t).Done():
		t.Fatalf("%s: no answer", what)
		panic("unreachable")
	}
}

func wantWaiters(t *testing.T, r *cell.Replica, path string, want int) {
	t.Helper()
	must(t, cell.Wait(cell.Bounded(t), fmt.Sprintf("%s has %d waiters", path, want), func(ctx context.Context) error {
		var l lockapi.Lock
		_, err := r.Call(ctx, http.MethodGet, lockRoute(path), nil, &l)
		if err == nil && l.Waiters != want {
			err = fmt.Errorf("there are %d", l.Waiters)
		}
		return err
	}))
}
