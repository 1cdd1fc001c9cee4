package client_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
)

// doubt makes the cell report each hold as unclaimed: it is revoked unless the
// client acquires it again. reported, which may be nil, is called after each
// report.
func (tc *testCell) doubt(s *client.Session, reported func()) {
	tc.lieBy(func(q *http.Request, _ *http.Response, body map[string]any) {
		holds, _ := body["holds"].([]any)
		if !isReview(q) || !strings.HasSuffix(q.URL.Path, s.ID()) || len(holds) == 0 {
			return
		}
		for _, h := range holds {
			h.(map[string]any)["unclaimed_ms"] = 5000
		}
		if reported != nil {
			reported()
		}
	})
}

// A new master does not know that the client received its grants, and would
// revoke them: the session claims them again.
func TestUnclaimedHoldsAreClaimed(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		holds := []*client.Held{lock(t, s, "/a"), lock(t, s, "/b", client.Limit(3), client.LockDelay(time.Second)), lock(t, s, "/c", client.Shared())}
		tc.doubt(s, nil)
		puts := tc.count(isMethod(http.MethodPut))
		tc.failOver("r2")
		time.Sleep(5 * time.Second)
		if n := tc.count(isMethod(http.MethodPut)) - puts; n < len(holds) {
			t.Errorf("%d of %d holds were claimed", n, len(holds))
		}
		tc.set(func() { tc.lie = nil })
		time.Sleep(time.Minute)
		for _, h := range holds {
			if h.Err() != nil {
				t.Errorf("the hold of %s: %v", h.Path(), h.Err())
			}
			wantTokens(t, tc, h.Path(), h.Token())
			if err := h.Unlock(t.Context()); err != nil {
				t.Errorf("unlock %s: %v", h.Path(), err)
			}
		}
	})
}

// A hold that was revoked before the client claimed it is lost. The client
// releases what the claim acquired instead.
func TestUnclaimedHoldIsTakenBack(t *testing.T) {
	for name, other := range map[string]bool{"free": false, "another's": true} {
		subBubble(t, name, func(t *testing.T, tc *testCell, c *client.Client) {
			s, next := open(t, c), open(t, c)
			h := lock(t, s, "/a")
			if other {
				go func() { _, _ = next.Lock(context.Background(), "/a") }()
				time.Sleep(time.Second)
			}
			var taken atomic.Bool
			tc.doubt(s, func() { // revoked after the reading, before the claim
				if taken.CompareAndSwap(false, true) {
					tc.ReleaseByForce("/a")
				}
			})
			tc.failOver("r2")
			time.Sleep(5 * time.Second)
			tc.set(func() { tc.lie = nil })
			wantErr(t, h.Err(), client.ErrLockLost)
			wantErr(t, h.Unlock(t.Context()), client.ErrLockLost)
			time.Sleep(30 * time.Second)
			if want := map[bool]int{false: 0, true: 1}[other]; len(tc.held("/a")) != want {
				t.Errorf("the lock has %d holders, want %d", len(tc.held("/a")), want)
			}
		})
	}
}

func isReview(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v1/sessions/")
}

// A waiter is granted the lock while its calls get lost. The grant appears in a
// reading of the session, and is claimed at once.
func TestUnclaimedGrantOfAWaiterIsAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		a, b := open(t, c), open(t, c)
		lock(t, a, "/a")
		time.AfterFunc(2*time.Second, func() {
			var read atomic.Bool
			tc.set(func() {
				tc.delay = func(r *http.Request) time.Duration {
					if r.Method == http.MethodPut && !read.Load() {
						return time.Hour
					}
					return 0
				}
				tc.drop = func(r *http.Request) bool { // drops nothing; notes the answer to the reading
					if isReview(r) && strings.HasSuffix(r.URL.Path, b.ID()) {
						read.Store(true)
					}
					return false
				}
			})
			tc.kill("r1")
			tc.Elect("r2")
			tc.ExpireSession(a.ID())
			tc.Elect("r3")
		})
		began := time.Now()
		got := lock(t, b, "/a")
		wantWithin(t, began, 6*time.Second)
		time.Sleep(time.Minute)
		must(t, got.Err())
		wantTokens(t, tc, "/a", got.Token())
	})
}

// An Unlock that crosses a claim leaves nothing behind.
func TestUnlockCrossesTheClaim(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		tc.doubt(s, nil)
		tc.delayBy(func(r *http.Request) time.Duration {
			if r.Method == http.MethodPut {
				client.Sleep(r.Context(), 15*time.Millisecond)
			}
			return 0
		})
		for ms := range 40 {
			path := fmt.Sprint("/", ms)
			h := lock(t, s, path)
			tc.Elect([]string{"r2", "r3", "r1"}[ms%3])
			time.Sleep(time.Duration(ms) * time.Millisecond)
			if err := h.Unlock(t.Context()); err != nil {
				t.Errorf("unlock after %d ms: %v", ms, err)
			}
		}
		time.Sleep(30 * time.Second)
		for ms := range 40 {
			wantTokens(t, tc, fmt.Sprint("/", ms))
		}
	})
}
