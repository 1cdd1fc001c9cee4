package client

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

func isMethod(method string) func(fakeRequest) bool {
	return func(r fakeRequest) bool { return r.method == method }
}

// all makes every replica deaf or not.
func (f *fakeCell) all(silent bool) {
	for id := range f.replicas {
		f.silence(id, silent)
	}
}

func TestLockAndUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		h := lock(t, s, "/db/migrate", LockDelay(time.Second))
		if h.Path() != "/db/migrate" || h.Mode() != lockapi.Exclusive || h.Token() != 1 || h.Handle() == "" || h.GrantedAt().IsZero() {
			t.Errorf("hold is %s %s %d %q %s", h.Path(), h.Mode(), h.Token(), h.Handle(), h.GrantedAt())
		}
		if check, err := c.CheckSequencer(t.Context(), h.Sequencer()); err != nil || !check.Valid {
			t.Errorf("check: %+v, %v", check, err)
		}
		for range 2 {
			if err := h.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
		wantErr(t, h.Err(), ErrUnlocked)
		if n := f.count(isMethod(http.MethodDelete)); n != 1 {
			t.Errorf("%d releases were sent, want 1", n)
		}
		if check, err := c.CheckSequencer(t.Context(), h.Sequencer()); err != nil || check.Valid || check.Reason == "" {
			t.Errorf("check after the release: %+v, %v", check, err)
		}
		if next := lock(t, s, "/db/migrate"); next.Handle() == h.Handle() || next.Token() <= h.Token() {
			t.Errorf("next hold has handle %s and token %d", next.Handle(), next.Token())
		}
	})
}

func TestModes(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		lock(t, s, "/shared", Shared())
		lock(t, s, "/shared", Shared())
		lock(t, s, "/two", Limit(2))
		lock(t, s, "/two", Limit(2))
		_, err := s.TryLock(t.Context(), "/two", Limit(2))
		wantErr(t, err, ErrLockHeld)
		_, err = s.TryLock(t.Context(), "/two", Limit(3))
		wantErr(t, err, ErrConflict)
		_, err = s.TryLock(t.Context(), "/shared")
		wantErr(t, err, ErrLockHeld)
		wantTokens(t, f, "/shared", 1, 2)
	})
}

// Errors keep their kind and their details over the wire.
func TestTryLockTellsTheHolders(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		a, b := open(t, c, WithName("a")), open(t, c)
		h := lock(t, a, "/a")
		_, err := b.TryLock(t.Context(), "/a")
		wantErr(t, err, ErrLockHeld)
		var refused *lockapi.Error
		if !errors.As(err, &refused) || len(refused.Holders) != 1 || refused.Holders[0].Token != h.Token() || refused.Holders[0].SessionName != "a" {
			t.Errorf("error is %#v", err)
		}
		if f.waiting("/a") != 0 {
			t.Error("TryLock left itself in the queue")
		}
	})
}

func TestBadArguments(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		sent := f.count(isMethod(http.MethodPut))
		for _, call := range []func() error{
			func() error { _, err := s.Lock(t.Context(), "no/slash"); return err },
			func() error { _, err := s.Lock(t.Context(), "/a", Limit(-1)); return err },
			func() error { _, err := s.Lock(t.Context(), "/a", LockDelay(time.Hour)); return err },
			func() error { _, err := c.NewSession(t.Context(), WithTTL(time.Millisecond)); return err },
			func() error { _, err := c.ReadLock(t.Context(), ""); return err },
			func() error { _, err := c.ReadSession(t.Context(), "a/keepalive"); return err },
			func() error { return c.KillSession(t.Context(), "") },
			func() error { _, err := c.Release(t.Context(), "/a", "", "", 0); return err },
			func() error { _, err := c.CheckSequencer(t.Context(), "nonsense"); return err },
			func() error { _, err := c.Transfer(t.Context(), "r9"); return err },
		} {
			wantErr(t, call(), ErrInvalidArgument)
		}
		if n := f.count(isMethod(http.MethodPut)); n != sent {
			t.Errorf("%d malformed requests were sent", n-sent)
		}
		s.locks.mu.Lock()
		defer s.locks.mu.Unlock()
		if len(s.locks.byHandle) != 0 {
			t.Errorf("%d acquisitions are left over", len(s.locks.byHandle))
		}
	})
}

// A waiter gets the lock as soon as it is free, also after several long polls.
func TestLockWaits(t *testing.T) {
	for _, held := range []time.Duration{time.Second, 2*longPoll + 5*time.Second} {
		t.Run(held.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
				a, b := open(t, c), open(t, c)
				h := lock(t, a, "/a")
				time.AfterFunc(held, func() { _ = h.Unlock(context.Background()) })
				began := time.Now()
				next := lock(t, b, "/a")
				if got := time.Since(began) - held; got > 100*time.Millisecond {
					t.Errorf("got the lock %s after it was free", got)
				}
				if next.Token() != 2 {
					t.Errorf("token is %d", next.Token())
				}
				time.Sleep(time.Minute)
				if held > longPoll {
					wantAck(t, f)
				}
				wantTokens(t, f, "/a", 2)
			})
		})
	}
}

// wantAck checks that the grant's event was taken in, and acknowledged.
func wantAck(t *testing.T, f *fakeCell) {
	t.Helper()
	acked := func(r fakeRequest) bool { return isKeepalive(r) && strings.Contains(r.body, `"ack":1`) }
	if f.count(acked) == 0 {
		t.Error("the event was not acknowledged")
	}
}

func TestWaitOver(t *testing.T) {
	for _, wait := range []time.Duration{3 * time.Second, longPoll + 3*time.Second} {
		t.Run(wait.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
				a, b := open(t, c), open(t, c)
				lock(t, a, "/a")
				began := time.Now()
				_, err := b.Lock(t.Context(), "/a", Wait(wait))
				wantErr(t, err, ErrLockHeld)
				var refused *lockapi.Error
				if !errors.As(err, &refused) || len(refused.Holders) != 1 {
					t.Errorf("error is %#v", err)
				}
				if got := time.Since(began) - wait; got < 0 || got > 100*time.Millisecond {
					t.Errorf("gave up %s after the wait was over", got)
				}
				if f.waiting("/a") != 0 {
					t.Error("still in the queue")
				}
			})
		})
	}
}

// A wait for as long as there is is no wait that is over.
func TestLongestWait(t *testing.T) {
	for _, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - time.Second, longestWait + 1} {
		bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
			s := open(t, c)
			if _, err := s.Lock(t.Context(), "/a", Wait(d)); err != nil {
				t.Errorf("Wait(%d): %v", d, err)
			}
		})
	}
}

// Without a cell, Wait ends too, but does not claim to know that the lock is
// held.
func TestWaitOverWithoutCell(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		f.kill("r1")
		began := time.Now()
		_, err := s.Lock(t.Context(), "/a", Wait(3*time.Second))
		wantErr(t, err, ErrNoMaster)
		if got := time.Since(began); got > 3*time.Second+waitSlack+settleTime+time.Second {
			t.Errorf("took %s", got)
		}
	})
}

// Whenever the context ends, nothing remains in the cell: no place in the queue
// and no grant that nobody knows of.
func TestCancelledLockLeavesNothing(t *testing.T) {
	for ms := 990; ms <= 1040; ms++ {
		bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
			a, b := open(t, c), open(t, c)
			h := lock(t, a, "/a")
			time.AfterFunc(time.Second, func() { _ = h.Unlock(context.Background()) })
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(ms)*time.Millisecond)
			defer cancel()
			got, err := b.Lock(ctx, "/a")
			if (got == nil) == (err == nil) {
				t.Fatalf("at %d ms: Lock returned %v and %v", ms, got, err)
			}
			time.Sleep(500 * time.Millisecond)
			if err != nil {
				wantErr(t, err, context.DeadlineExceeded)
				wantTokens(t, f, "/a")
			}
			if f.waiting("/a") != 0 {
				t.Errorf("at %d ms: still in the queue", ms)
			}
		})
	}
}

// A grant to a request that arrives after its caller has given up is released
// once twice the time has passed that the request was late by, however late that
// is. The session is read ever more seldom for it.
func TestLateGrantIsSwept(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Second, 15 * time.Second, time.Minute} {
		for _, late := range []time.Duration{6 * time.Second, 30 * time.Second, 20 * time.Minute} {
			bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
				s := open(t, c, WithTTL(ttl))
				f.set(func() {
					f.delay = func(r *http.Request) time.Duration {
						if r.Method == http.MethodPut {
							return late
						}
						return 0
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := s.Lock(ctx, "/a")
				wantErr(t, err, context.DeadlineExceeded)
				isReview := func(r fakeRequest) bool {
					return r.method == http.MethodGet && r.path == "/v1/sessions/"+s.ID()
				}
				time.Sleep(late - 2*time.Second)
				if n := f.count(isReview); n > 25 {
					t.Errorf("the session was looked through %d times within %v", n, late)
				}
				time.Sleep(time.Second + f.lag() + max(lostTime, late) + s.TTL())
				f.set(func() {
					if f.token == 0 {
						t.Error("the late request was not granted")
					}
				})
				if held := f.held("/a"); len(held) != 0 {
					t.Errorf("ttl %v, late by %v: it is held still", ttl, late)
				}
			})
		}
	}
}

// A lost answer: the call is repeated with the same handle, and gets the same
// grant.
func TestLostAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		lost := map[string]int{}
		f.set(func() {
			f.drop = func(r *http.Request) bool {
				if r.Method == http.MethodPost {
					return false
				}
				lost[r.Method]++
				return lost[r.Method] <= 2
			}
		})
		h := lock(t, s, "/a")
		wantTokens(t, f, "/a", h.Token())
		if h.Token() != 1 {
			t.Errorf("token is %d, want 1", h.Token())
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Errorf("unlock: %v", err)
		}
		wantTokens(t, f, "/a")
	})
}

func TestUnlockUnderCancelledContext(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		h := lock(t, s, "/a")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
		wantTokens(t, f, "/a")
	})
}

// An Unlock that the cell does not answer gives up in time, and the session
// makes good for it later.
func TestUnlockGoesOnInTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		h := lock(t, s, "/a")
		f.all(true)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		if err := h.Unlock(ctx); err == nil {
			t.Fatal("unlock succeeded without a cell")
		}
		if got := time.Since(began); got > releaseTime {
			t.Errorf("unlock took %s", got)
		}
		f.all(false)
		time.Sleep(5 * time.Second)
		wantTokens(t, f, "/a")
		wantState(t, s, Safe)
		if err := h.Unlock(t.Context()); err != nil {
			t.Errorf("unlocked again: %v", err)
		}
	})
}

func TestUnlockOfWhatIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		h := lock(t, s, "/a")
		if ok, err := c.Release(t.Context(), "/a", s.ID(), h.Handle(), h.Token()); !ok || err != nil {
			t.Fatalf("operator's release: %v, %v", ok, err)
		}
		wantErr(t, h.Unlock(t.Context()), ErrLockLost)
		wantErr(t, h.Unlock(t.Context()), ErrLockLost)
	})
}

// A waiter keeps its place over a change of master, and is granted by the new
// one, whether the old one breaks the connection or falls silent.
func TestLockWaitsOverChangeOfMaster(t *testing.T) {
	for name, fail := range map[string]func(*fakeCell){
		"killed": func(f *fakeCell) { f.kill("r1") },
		"silent": func(f *fakeCell) { f.silence("r1", true) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
				a, b := open(t, c), open(t, c)
				h := lock(t, a, "/a")
				time.AfterFunc(time.Second, func() { fail(f) })
				time.AfterFunc(2*time.Second, func() { f.elect("r2") })
				time.AfterFunc(14*time.Second, func() {
					if err := h.Unlock(context.Background()); err != nil {
						t.Errorf("unlock: %v", err)
					}
				})
				next := lock(t, b, "/a")
				if got := a.c.clock.now(); got > 15*time.Second {
					t.Errorf("granted at %s, want soon after 14 s", got)
				}
				wantTokens(t, f, "/a", next.Token())
			})
		})
	}
}

func TestSessionEndsLockReturns(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		a, b := open(t, c), open(t, c)
		lock(t, a, "/a")
		time.AfterFunc(time.Second, func() { _ = b.Close(context.Background()) })
		_, err := b.Lock(t.Context(), "/a")
		wantErr(t, err, ErrSessionClosed)
		synctest.Wait()

		d := open(t, c)
		time.AfterFunc(time.Second, func() { _ = c.KillSession(context.Background(), d.ID()) })
		_, err = d.Lock(t.Context(), "/a")
		wantErr(t, err, ErrSessionExpired)
	})
}

// slowPuts delays each request for a lock on its way.
type slowPuts struct{ http.RoundTripper }

func (s slowPuts) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		sleep(r.Context(), 1500*time.Millisecond)
	}
	return s.RoundTripper.RoundTrip(r)
}

// The wait ends while the grant is on its way: what the withdrawal has released
// is not handed out.
func TestGrantCrossesTheWithdrawal(t *testing.T) {
	for ms := 1990; ms <= 2020; ms++ {
		bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
			h := lock(t, open(t, c), "/a")
			slow, err := Config{URLs: []string{"http://r1"}, Transport: slowPuts{f}, Clock: c.clock.now}.New()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = slow.Close() })
			s := open(t, slow)
			time.AfterFunc(time.Duration(ms)*time.Millisecond, func() { _ = h.Unlock(context.Background()) })
			got, err := s.Lock(t.Context(), "/a", Wait(time.Second))
			if (got == nil) == (err == nil) {
				t.Fatalf("free after %d ms: Lock returned %v and %v", ms, got, err)
			}
			if err == nil {
				wantTokens(t, f, "/a", got.Token())
				return
			}
			wantErr(t, err, ErrLockHeld)
			time.Sleep(5 * time.Second)
			wantTokens(t, f, "/a")
			if f.waiting("/a") != 0 {
				t.Errorf("free after %d ms: still in the queue", ms)
			}
		})
	}
}

// Only a refusal that says so is proof that nothing is left in the cell.
func TestRefusalsThatLeaveNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		lock(t, s, "/a", Limit(2))
		for _, tc := range []struct {
			opts     []LockOption
			want     error
			releases int
		}{
			{nil, ErrLockHeld, 0},
			{[]LockOption{Limit(3)}, ErrConflict, 1},
		} {
			before := f.count(isMethod(http.MethodDelete))
			_, err := s.TryLock(t.Context(), "/a", tc.opts...)
			wantErr(t, err, tc.want)
			if n := f.count(isMethod(http.MethodDelete)) - before; n != tc.releases {
				t.Errorf("%v: %d releases followed, want %d", tc.want, n, tc.releases)
			}
		}
	})
}

// tooMany refuses some requests as a cell whose quotas are used up does.
type tooMany struct {
	*fakeCell
	refuse func(*http.Request) bool
}

func (c tooMany) RoundTrip(r *http.Request) (*http.Response, error) {
	if !c.refuse(r) {
		return c.fakeCell.RoundTrip(r)
	}
	return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"7"}},
		Body: io.NopCloser(strings.NewReader(`{"code":"too_many","detail":"quota max-holds is used up"}`))}, nil
}

// A quota that is used up is told at once, with the cell's advice; nothing is
// left to be released. A release goes on until it is taken.
func TestTooMany(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
		var puts, deletes int
		c, err := Config{URLs: []string{"http://r1"}, Transport: tooMany{f, func(r *http.Request) bool {
			if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/full") {
				puts++
				return true
			}
			if r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, lockapi.RouteLocks) {
				deletes++
				return deletes < 4
			}
			return false
		}}}.New()
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, c)
		_, err = s.Lock(t.Context(), "/full")
		wantErr(t, err, ErrTooMany)
		var e *lockapi.Error
		if !errors.As(err, &e) || e.RetryAfter != 7 || puts != 1 || deletes != 0 {
			t.Errorf("%v after %d calls and %d releases; want one call and the advice", err, puts, deletes)
		}
		held := lock(t, s, "/a")
		if err := held.Unlock(t.Context()); err != nil || deletes != 4 {
			t.Errorf("%v after %d calls", err, deletes)
		}
	})
}
