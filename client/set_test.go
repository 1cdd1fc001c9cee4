package client_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// wantHolders checks how many holders the locks have, and how many waiters.
func wantHolders(t *testing.T, tc *testCell, holders, waiters int, paths ...string) {
	t.Helper()
	for _, path := range paths {
		l, err := tc.admin.ReadLock(context.Background(), path)
		if err != nil || len(l.Holders) != holders || l.Waiters != waiters {
			t.Fatalf("%s has %d holders and %d waiters, want %d and %d: %v", path, len(l.Holders), l.Waiters, holders, waiters, err)
		}
	}
}

func TestSeveralLocks(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		first := lock(t, open(t, c), "/b")
		s := open(t, c)
		_, err := s.TryLock(t.Context(), "/a", client.With("/b", "/c"))
		if wantErr(t, err, client.ErrLockHeld); !strings.Contains(err.Error(), `"/b"`) {
			t.Errorf("refused with %v, which does not name /b", err)
		}
		wantHolders(t, tc, 0, 0, "/a", "/c")
		_, err = s.Lock(t.Context(), "/a", client.With("/b", "/c"), client.Wait(time.Second))
		if wantErr(t, err, client.ErrLockHeld); !strings.Contains(err.Error(), "/b") {
			t.Errorf("refused with %v, which does not name /b", err)
		}
		wantHolders(t, tc, 0, 0, "/a", "/c")

		var held *client.Held
		var waiting sync.WaitGroup
		waiting.Go(func() { held = lock(t, s, "/a", client.With("/b", "/c")) })
		time.Sleep(time.Second)
		wantHolders(t, tc, 0, 1, "/a", "/c")
		wantErr(t, second(open(t, c).TryLock(t.Context(), "/c")), client.ErrLockHeld)
		must(t, first.Unlock(t.Context()))
		waiting.Wait()
		wantHolders(t, tc, 1, 0, "/a", "/b", "/c")
		all := held.Sequencers()
		for i, path := range []string{"/a", "/b", "/c"} {
			q, err := lockapi.ParseSequencer(all[i])
			if err != nil || q.Path != path || q.Token != held.Token()+uint64(i) {
				t.Errorf("sequencer %d is %q: %v", i, all[i], err)
			}
		}
		must(t, second(c.Put(t.Context(), "/file", []byte("x"), client.While(held))))
		if r, err := c.Txn().If(client.WhenHeld(held)).Then(client.OpPut("/file", []byte("y"))).Commit(t.Context()); err != nil || !r.Succeeded {
			t.Error(r, err)
		}
		isTxn := func(r sentRequest) bool { return r.path == lockapi.RouteTransactions }
		for _, sequencer := range all {
			if tc.count(func(r sentRequest) bool { return isTxn(r) && strings.Contains(r.body, sequencer) }) != 1 {
				t.Errorf("the transaction does not name %s", sequencer)
			}
		}
		must(t, held.Unlock(t.Context()))
		wantErr(t, held.Unlock(t.Context()), nil)
		wantErr(t, held.Err(), client.ErrUnlocked)
		wantHolders(t, tc, 0, 0, "/a", "/b", "/c")
	})
}

// TestLossOfOneOfSeveral: the loss of one lock ends the hold, and the others are
// held until Unlock.
func TestLossOfOneOfSeveral(t *testing.T) {
	for _, path := range []string{"/a", "/b"} {
		bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
			held := lock(t, open(t, c), "/a", client.With("/b", "/c"))
			tc.ReleaseByForce(path)
			<-held.Done()
			wantErr(t, held.Err(), client.ErrLockLost)
			time.Sleep(time.Minute)
			wantHolders(t, tc, 0, 0, path)
			wantHolders(t, tc, 1, 0, "/c")
			wantErr(t, second(held.Resume(t.Context())), client.ErrLockLost)
			wantErr(t, held.Unlock(t.Context()), client.ErrLockLost)
			wantHolders(t, tc, 0, 0, "/a", "/b", "/c")
		})
	}
}

// TestSeveralLocksAfterAJeopardy: the hold is resumed with all its locks.
func TestSeveralLocksAfterAJeopardy(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		c := tc.Client()
		held := lock(t, open(t, c, client.TTL(12*time.Second)), "/a", client.With("/b"))
		tc.LoseAnswers(c)
		<-held.Done()
		wantErr(t, held.Err(), client.ErrJeopardy)
		tc.Mend(c)
		again, err := held.Resume(t.Context())
		if err != nil || again.Token() != held.Token() || len(again.Sequencers()) != 2 {
			t.Fatalf("resumed %+v: %v", again, err)
		}
		wantErr(t, again.Unlock(t.Context()), nil)
		wantHolders(t, tc, 0, 0, "/a", "/b")
	})
}

// TestSeveralLocksAcrossMasters: a queue position for several locks survives a
// change of master, and so does the grant.
func TestSeveralLocksAcrossMasters(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		first := lock(t, open(t, c), "/b")
		s := open(t, c)
		var held *client.Held
		var waiting sync.WaitGroup
		waiting.Go(func() { held = lock(t, s, "/a", client.With("/b")) })
		time.Sleep(time.Second)
		tc.KillMaster()
		time.Sleep(30 * time.Second)
		wantHolders(t, tc, 0, 1, "/a")
		wantErr(t, first.Unlock(t.Context()), nil)
		waiting.Wait()
		tc.KillMaster()
		time.Sleep(time.Minute)
		wantErr(t, held.Err(), nil)
		wantHolders(t, tc, 1, 0, "/a", "/b")
		wantErr(t, held.Unlock(t.Context()), nil)
	})
}

// TestSeveralLocksGivenUp: a Lock that gives up leaves nothing, whether its
// context ends before, with or after the grant.
func TestSeveralLocksGivenUp(t *testing.T) {
	for _, after := range []time.Duration{0, 4, 5, 6, 9, 10, 11, 14, 15, 16, 20, 30} {
		bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
			first, s := lock(t, open(t, c), "/b"), open(t, c)
			ctx, cancel := context.WithCancel(t.Context())
			var waiting sync.WaitGroup
			waiting.Go(func() {
				if held, err := s.Lock(ctx, "/a", client.With("/b", "/c")); err == nil {
					wantErr(t, held.Unlock(t.Context()), nil)
				}
			})
			time.Sleep(time.Second)
			time.AfterFunc(after*time.Millisecond, cancel)
			wantErr(t, first.Unlock(t.Context()), nil)
			waiting.Wait()
			time.Sleep(time.Minute)
			wantHolders(t, tc, 0, 0, "/a", "/b", "/c")
		})
	}
}

// TestSeveralLocksInAnyOrder: callers that name the same locks in different
// orders do not wait for each other, and hold them one at a time.
func TestSeveralLocksInAnyOrder(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		orders := [][]string{{"/a", "/b", "/c"}, {"/c", "/b", "/a"}, {"/b", "/c", "/a"}}
		var inside, entries atomic.Int32
		var all sync.WaitGroup
		for i := range 9 {
			s, order := open(t, c), orders[i%3]
			all.Go(func() {
				for range 10 {
					h, err := s.Lock(t.Context(), order[0], client.With(order[1:]...), client.Priority(i%2))
					if err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) != 1 {
						t.Error("two holders at once")
					}
					entries.Add(1)
					time.Sleep(3 * time.Millisecond)
					inside.Add(-1)
					if err := h.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if entries.Load() != 90 {
			t.Errorf("%d entries, want 90", entries.Load())
		}
		wantHolders(t, tc, 0, 0, "/a", "/b", "/c")
	})
}

func TestSeveralLocksAreChecked(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		many := make([]string, lockapi.MaxSet)
		for i := range many {
			many[i] = fmt.Sprintf("/with/%d", i)
		}
		for _, with := range [][]string{{"/a"}, {"/b", "/b"}, {"b"}, {""}, many} {
			wantErr(t, second(s.Lock(t.Context(), "/a", client.With(with...))), client.ErrInvalidArgument)
		}
		held := lock(t, s, many[0], client.With(many[1:]...))
		wantErr(t, held.Unlock(t.Context()), nil)
	})
}

// TestSeveralLocksBeginAnew: the answer that granted the locks is lost, and an
// operator releases one of them before the request is repeated.
func TestSeveralLocksBeginAnew(t *testing.T) {
	for _, with := range [][]string{nil, {"/b"}} {
		bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
			first := lock(t, open(t, c), "/a")
			s := open(t, c)
			var err error
			var held *client.Held
			var waiting sync.WaitGroup
			waiting.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				held, err = s.Lock(ctx, "/a", client.With(with...))
			})
			time.Sleep(time.Second)
			var once atomic.Bool
			tc.dropIf(func(q *http.Request) bool {
				return q.Method == http.MethodPut && strings.HasSuffix(q.URL.Path, "/a") && once.CompareAndSwap(false, true)
			})
			wantErr(t, first.Unlock(t.Context()), nil)
			path := "/a"
			if with != nil {
				path = with[0]
			}
			tc.ReleaseByForce(path)
			waiting.Wait()
			if err != nil || held.Err() != nil {
				t.Errorf("with %v: Lock fails with %v", with, err)
			}
		})
	}
}

// TestUnlockOfSeveralReportsALoss: the answer to one release is lost, and another of
// the locks was released by force.
func TestUnlockOfSeveralReportsALoss(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		h := lock(t, s, "/a", client.With("/b"))
		var once atomic.Bool
		tc.dropIf(func(q *http.Request) bool {
			if q.Method == http.MethodDelete && once.CompareAndSwap(false, true) {
				tc.ReleaseByForce("/b")
				return true
			}
			return false
		})
		wantErr(t, h.Unlock(t.Context()), client.ErrLockLost)
	})
}

// TestLateReleaseBeforeBeginningAnew: the release with which a request for
// several locks begins anew is repeated, and its first attempt arrives after the
// new grant.
func TestLateReleaseBeforeBeginningAnew(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		first, s := lock(t, open(t, c), "/a"), open(t, c)
		var held *client.Held
		var waiting sync.WaitGroup
		waiting.Go(func() { held = lock(t, s, "/a", client.With("/b")) })
		time.Sleep(time.Second)
		var dropped, delayed atomic.Bool
		tc.dropIf(func(q *http.Request) bool {
			return q.Method == http.MethodPut && dropped.CompareAndSwap(false, true)
		})
		wantErr(t, first.Unlock(t.Context()), nil)
		tc.ReleaseByForce("/b")
		tc.delayBy(func(q *http.Request) time.Duration {
			if q.Method == http.MethodDelete && delayed.CompareAndSwap(false, true) {
				return 10 * time.Second
			}
			return 0
		})
		waiting.Wait()
		if !dropped.Load() || !delayed.Load() {
			t.Fatal("the request did not begin anew")
		}
		time.Sleep(time.Minute)
		wantErr(t, held.Err(), nil)
		wantHolders(t, tc, 1, 0, "/a", "/b")
		wantErr(t, held.Unlock(t.Context()), nil)
		wantHolders(t, tc, 0, 0, "/a", "/b")
	})
}

// TestUnlockOfSeveralAcrossMasters: the answer to one release is lost and comes
// no more, since the master changes. Another lock was released by force.
func TestUnlockOfSeveralAcrossMasters(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		h := lock(t, s, "/a", client.With("/b"))
		tc.set(func() { tc.withoutEvents = true })
		tc.ReleaseByForce("/b")
		var once atomic.Bool
		tc.delayBy(func(q *http.Request) time.Duration {
			if q.Method == http.MethodDelete && once.CompareAndSwap(false, true) {
				time.AfterFunc(100*time.Millisecond, s.AskAgain)
				return time.Millisecond
			}
			return 0
		})
		wantErr(t, h.Unlock(t.Context()), client.ErrLockLost)
	})
}
