// Package e2e_test runs cells of real processes through what they promise to
// survive: kills, restarts, partitions, stops of the master, broken
// connections. Each test has a cell of its own.
//
// Waits have a condition and a generous deadline. Where a test asserts a time,
// the bound is one that holds however slow the machine is: it counts from an
// instant before the cell could have begun to count, or to one after it ended.
package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// TestMain lets several cells run at once even on two cores: the tests wait for
// the most part.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "4")
	}
	os.Exit(m.Run())
}

// aWhile is a ttl or a wait that no test outlasts.
const aWhile = 10 * time.Minute

// calm are settings under which a master stays in office on a busy machine.
var calm = []string{"--heartbeat-timeout=2s"}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newMaster waits for a master other than the old one.
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

// isMaster is nil if the replica says that it is master and holds the lease.
func isMaster(ctx context.Context, r *cell.Replica) error {
	view, err := ownView(ctx, r)
	if err == nil && !view.Lease.Held {
		err = fmt.Errorf("%s holds no lease", r.ID)
	}
	return err
}

// call makes one call of a replica and wants a good answer.
func call[T any](t *testing.T, r *cell.Replica, method, target string, in any) (out T) {
	t.Helper()
	if _, err := r.Call(cell.Bounded(t), method, target, in, &out); err != nil {
		t.Fatalf("%s %s at %s: %v", method, target, r.ID, err)
	}
	return out
}

// insist makes a call at each of the replicas in turn until one answers for
// good, as the contract lets a client do. It reports how many attempts it took.
// No attempt is given up before ctx ends: one that was could take effect later.
func insist(ctx context.Context, replicas []*cell.Replica, method, target string, in, out any) (attempts int, err error) {
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for {
		_, err := replicas[attempts%len(replicas)].Call(ctx, method, target, in, out)
		attempts++
		if refused := new(lockapi.Error); err == nil ||
			errors.As(err, &refused) && refused.Code != lockapi.CodeNoMaster && refused.Code != lockapi.CodeOutcomeUnknown {
			return attempts, err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return attempts, err
		}
	}
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

func open(t *testing.T, r *cell.Replica, ttl time.Duration) lockapi.Session {
	t.Helper()
	return call[lockapi.Session](t, r, http.MethodPost, lockapi.RouteSessions, lockapi.SessionRequest{TTLMS: ttl.Milliseconds()})
}

// ask is a request for an exclusive lock that waits so long.
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
	got := call[lockapi.Released](t, r, http.MethodDelete, releaseRoute(g.Path, g.Session, g.Handle, g.Token), nil)
	if !got.Released {
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

// answer is what a call that was made in the background came to.
type answer[T any] struct {
	out  T
	err  error
	took time.Duration
}

// begin makes a call in the background, for as long as it takes.
func begin[T any](t *testing.T, r *cell.Replica, method, target string, in any) <-chan answer[T] {
	got := make(chan answer[T], 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*cell.Step)
	go func() {
		defer cancel()
		var a answer[T]
		began := time.Now()
		_, a.err = r.Call(ctx, method, target, in, &a.out)
		a.took = time.Since(began)
		got <- a
	}()
	return got
}

// await waits for the answer of a call that was begun.
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

// wantWaiters waits until this many wait for a lock.
func wantWaiters(t *testing.T, r *cell.Replica, path string, want int) {
	t.Helper()
	must(t, cell.Wait(cell.Bounded(t), fmt.Sprintf("%d wait for %s", want, path), func(ctx context.Context) error {
		var l lockapi.Lock
		_, err := r.Call(ctx, http.MethodGet, lockRoute(path), nil, &l)
		if err == nil && l.Waiters != want {
			err = fmt.Errorf("there are %d", l.Waiters)
		}
		return err
	}))
}
