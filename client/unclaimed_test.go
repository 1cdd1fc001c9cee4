package client

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// failOver has another replica take over from a master that dies.
func (f *fakeCell) failOver(to string) {
	f.kill(f.master)
	f.elect(to)
}

// A new master does not know that we were told of our holds, and would take
// them back: the session asks for them again.
func TestUnclaimedHoldsAreClaimed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		holds := []*Held{lock(t, s, "/a"), lock(t, s, "/b", Limit(3), LockDelay(time.Second)), lock(t, s, "/c", Shared())}
		f.failOver("r2")
		for _, h := range holds {
			f.doubt(h.Path(), 5*time.Second)
		}
		time.Sleep(time.Minute)
		for _, h := range holds {
			if h.Err() != nil {
				t.Errorf("the hold of %s: %v", h.Path(), h.Err())
			}
			wantTokens(t, f, h.Path(), h.Token())
			if err := h.Unlock(t.Context()); err != nil {
				t.Errorf("unlock %s: %v", h.Path(), err)
			}
		}
	})
}

// What was taken back before it could be asked for is lost, and what the asking
// then got is given back.
func TestUnclaimedHoldIsTakenBack(t *testing.T) {
	for name, other := range map[string]bool{"free": false, "another's": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
				s, next := open(t, c), open(t, c)
				h := lock(t, s, "/a")
				if other {
					go func() { _, _ = next.Lock(context.Background(), "/a") }()
					time.Sleep(time.Second)
				}
				var reviews atomic.Int64
				f.set(func() {
					f.drop = func(r *http.Request) bool {
						if isReview(r) && strings.HasSuffix(r.URL.Path, s.ID()) && reviews.Add(1) == 1 {
							f.doubt("/a", -1) // taken back after the reading, before the asking
						}
						return false
					}
				})
				f.failOver("r2")
				f.doubt("/a", 10*time.Second)
				time.Sleep(5 * time.Second)
				wantErr(t, h.Err(), ErrLockLost)
				wantErr(t, h.Unlock(t.Context()), ErrLockLost)
				time.Sleep(30 * time.Second)
				if want := map[bool]int{false: 0, true: 1}[other]; len(f.held("/a")) != want {
					t.Errorf("the lock has %d holders, want %d", len(f.held("/a")), want)
				}
			})
		})
	}
}

func isReview(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v1/sessions/")
}

// A grant that came while calls for it are lost on their way is seen in a
// reading of the session, and asked for at once.
func TestUnclaimedGrantOfAWaiterIsAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		a, b := open(t, c), open(t, c)
		lock(t, a, "/a")
		time.AfterFunc(2*time.Second, func() {
			var read atomic.Bool
			f.set(func() {
				f.delay = func(r *http.Request) time.Duration {
					if r.Method == http.MethodPut && !read.Load() {
						return time.Hour
					}
					return 0
				}
				f.drop = func(r *http.Request) bool { // none, but it knows when the reading is answered
					if isReview(r) && strings.HasSuffix(r.URL.Path, b.ID()) {
						read.Store(true)
					}
					return false
				}
			})
			f.kill("r1")
			f.set(func() { f.end(a.ID()) })
			f.doubt("/a", 5*time.Second)
			f.elect("r2")
		})
		began := time.Now()
		got := lock(t, b, "/a")
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
		time.Sleep(time.Minute)
		if got.Err() != nil {
			t.Error(got.Err())
		}
		wantTokens(t, f, "/a", got.Token())
	})
}

// An Unlock that crosses the asking leaves nothing behind.
func TestUnlockCrossesTheClaim(t *testing.T) {
	for ms := range 40 {
		bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
			s := open(t, c)
			h := lock(t, s, "/a")
			f.set(func() {
				f.delay = func(r *http.Request) time.Duration {
					if r.Method == http.MethodPut {
						sleep(r.Context(), 15*time.Millisecond)
					}
					return 0
				}
			})
			f.failOver("r2")
			f.doubt("/a", 5*time.Second)
			time.Sleep(time.Duration(ms) * time.Millisecond)
			if err := h.Unlock(t.Context()); err != nil {
				t.Errorf("unlock after %d ms: %v", ms, err)
			}
			time.Sleep(30 * time.Second)
			wantTokens(t, f, "/a")
		})
	}
}
