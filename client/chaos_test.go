package client_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/stouttest"
	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/internal/testrun"
)

// Under silent replicas, elections and lost answers, two holds of an exclusive
// lock are never valid at once. Tokens grow from hold to hold. After recovery
// the cell keeps no hold.
func TestHoldsUnderFaults(t *testing.T) {
	for _, seed := range testrun.Sample(t, 2, 12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc := newTestCell(t, stouttest.Options{})
				w := &watcher{}
				ctx := timeout(t, 2*time.Minute)
				var all sync.WaitGroup
				for i := range 4 {
					c := tc.client(t)
					all.Go(func() { w.work(ctx, t, c, rand.New(rand.NewPCG(uint64(seed), uint64(i)))) })
				}
				tc.trouble(ctx, rand.New(rand.NewPCG(uint64(seed), 99)))
				all.Wait()
				time.Sleep(time.Minute)
				wantTokens(t, tc, "/a")
				if w.holds < 10 {
					t.Errorf("only %d holds in two minutes", w.holds)
				}
			})
		})
	}
}

// trouble causes and repairs faults until ctx ends.
func (tc *testCell) trouble(ctx context.Context, r *rand.Rand) {
	ids := []string{"r1", "r2", "r3"}
	for ctx.Err() == nil {
		id := ids[r.IntN(3)]
		tc.isolate(id, true)
		lossy := r.IntN(3) == 0
		var answers atomic.Int64
		tc.dropIf(func(*http.Request) bool { return lossy && answers.Add(1)%4 == 0 })
		client.Sleep(ctx, 2*time.Second)
		tc.Elect(ids[r.IntN(3)])
		d := time.Duration(r.IntN(15_000)) * time.Millisecond
		client.Sleep(ctx, d)
		tc.set(func() { tc.drop = nil })
		tc.isolate(id, false)
		client.Sleep(ctx, d/2)
	}
	tc.all(false)
}

// watcher checks all holds of all clients.
type watcher struct {
	mu    sync.Mutex
	good  *client.Held
	token uint64
	holds int
}

func (w *watcher) work(ctx context.Context, t *testing.T, c *client.Client, r *rand.Rand) {
	for ctx.Err() == nil {
		s, err := c.NewSession(ctx, client.TTL(time.Duration(1+r.IntN(12))*time.Second))
		if err != nil {
			continue
		}
		for s.Err() == nil && ctx.Err() == nil {
			h, err := s.Lock(ctx, "/a", client.Wait(time.Duration(r.IntN(20_000))*time.Millisecond))
			if err != nil {
				continue
			}
			w.enter(t, h)
			select {
			case <-h.Done():
			case <-time.After(time.Duration(r.IntN(3000)) * time.Millisecond):
			case <-ctx.Done():
			}
			unlock, cancel := context.WithTimeout(ctx, time.Minute)
			_ = h.Unlock(unlock) // the invariants hold whether or not it succeeds
			cancel()
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		_ = s.Close(end)
		cancel()
	}
}

// enter checks that a new hold is the only valid one, and that its token is
// higher than the last.
func (w *watcher) enter(t *testing.T, h *client.Held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds++
	if w.good != nil && w.good.Err() == nil && h.Err() == nil {
		t.Errorf("tokens %d and %d are valid at once", w.good.Token(), h.Token())
	}
	if h.Token() <= w.token {
		t.Errorf("token %d after %d", h.Token(), w.token)
	}
	w.good, w.token = h, h.Token()
}
