package client_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

func isMethod(method string) func(sentRequest) bool {
	return func(r sentRequest) bool { return r.method == method }
}

func TestLockAndUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		h := lock(t, s, "/db/migrate", client.LockDelay(time.Second))
		if h.Path() != "/db/migrate" || h.Mode() != lockapi.Exclusive || h.Token() == 0 || h.Handle() == "" || h.GrantedAt().IsZero() {
			t.Errorf("hold is %s %s %d %q %s", h.Path(), h.Mode(), h.Token(), h.Handle(), h.GrantedAt())
		}
		if check, err := c.CheckSequencer(t.Context(), h.Sequencer()); err != nil || !check.Valid {
			t.Errorf("check: %+v, %v", check, err)
		}
		for range 2 {
			must(t, h.Unlock(t.Context()))
		}
		wantErr(t, h.Err(), client.ErrUnlocked)
		wantEqual(t, "releases were sent", tc.count(isMethod(http.MethodDelete)), 1)
		if check, err := c.CheckSequencer(t.Context(), h.Sequencer()); err != nil || check.Valid || check.Reason == "" {
			t.Errorf("check after the release: %+v, %v", check, err)
		}
		if next := lock(t, s, "/db/migrate"); next.Handle() == h.Handle() || next.Token() <= h.Token() {
			t.Errorf("next hold has handle %s and token %d", next.Handle(), next.Token())
		}
	})
}

func TestModes(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		lock(t, s, "/shared", client.Shared())
		lock(t, s, "/shared", client.Shared())
		lock(t, s, "/two", client.Limit(2))
		lock(t, s, "/two", client.Limit(2))
		wantErr(t, second(s.TryLock(t.Context(), "/two", client.Limit(2))), client.ErrLockHeld)
		wantErr(t, second(s.TryLock(t.Context(), "/two", client.Limit(3))), client.ErrConflict)
		wantErr(t, second(s.TryLock(t.Context(), "/shared")), client.ErrLockHeld)
		wantEqual(t, "holders", len(tc.held("/shared")), 2)
	})
}

func TestBadArguments(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		sent := tc.count(isMethod(http.MethodPut))
		for _, call := range []func() error{
			func() error { _, err := s.Lock(t.Context(), "no/slash"); return err },
			func() error { _, err := s.Lock(t.Context(), "/a", client.Limit(-1)); return err },
			func() error { _, err := s.Lock(t.Context(), "/a", client.LockDelay(time.Hour)); return err },
			func() error { _, err := c.NewSession(t.Context(), client.TTL(time.Millisecond)); return err },
			func() error { _, err := c.ReadLock(t.Context(), ""); return err },
			func() error { _, err := c.CheckSequencer(t.Context(), "nonsense"); return err },
		} {
			wantErr(t, call(), client.ErrInvalidArgument)
		}
		if n := tc.count(isMethod(http.MethodPut)); n != sent {
			t.Errorf("%d malformed requests were sent", n-sent)
		}
		wantEqual(t, "acquisitions are left over", s.Acquisitions(), 0)
	})
}

// A waiter gets the lock as soon as it is free, even after several long polls.
func TestLockWaits(t *testing.T) {
	for _, held := range []time.Duration{time.Second, 2*client.LongPoll + 5*time.Second} {
		subBubble(t, held.String(), func(t *testing.T, tc *testCell, c *client.Client) {
			a, b := open(t, c), open(t, c)
			h := lock(t, a, "/a")
			time.AfterFunc(held, func() { _ = h.Unlock(context.Background()) })
			began := time.Now()
			next := lock(t, b, "/a")
			if got := time.Since(began) - held; got > 100*time.Millisecond {
				t.Errorf("got the lock %s after it was free", got)
			}
			if next.Token() <= h.Token() {
				t.Errorf("token is %d after %d", next.Token(), h.Token())
			}
			time.Sleep(time.Minute)
			if held > client.LongPoll {
				wantAck(t, tc)
			}
			wantTokens(t, tc, "/a", next.Token())
		})
	}
}

// wantAck checks that a keepalive acknowledged the grant's event.
func wantAck(t *testing.T, tc *testCell) {
	t.Helper()
	acked := func(r sentRequest) bool {
		return isKeepalive(r) && strings.Contains(r.body, `"ack":`) && !strings.Contains(r.body, `"ack":0`)
	}
	if tc.count(acked) == 0 {
		t.Error("the event was not acknowledged")
	}
}

// A wait that is over, or no wait, leaves no queue position. The error names
// the holders.
func TestWaitOver(t *testing.T) {
	for _, wait := range []time.Duration{0, 3 * time.Second, client.LongPoll + 3*time.Second} {
		subBubble(t, wait.String(), func(t *testing.T, tc *testCell, c *client.Client) {
			a, b := open(t, c, client.Name("a")), open(t, c)
			h := lock(t, a, "/a")
			began := time.Now()
			_, err := b.Lock(t.Context(), "/a", client.Wait(wait))
			wantErr(t, err, client.ErrLockHeld)
			var refused *lockapi.Error
			if !errors.As(err, &refused) || len(refused.Holders) != 1 || refused.Holders[0].Token != h.Token() || refused.Holders[0].SessionName != "a" {
				t.Errorf("error is %#v", err)
			}
			if got := time.Since(began) - wait; got < 0 || got > 100*time.Millisecond {
				t.Errorf("gave up %s after the wait was over", got)
			}
			if tc.waiting("/a") != 0 {
				t.Error("still in the queue")
			}
		})
	}
}

// The longest possible wait does not overflow into one that is over.
func TestLongestWait(t *testing.T) {
	for _, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - time.Second, client.LongestWait + 1} {
		bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
			s := open(t, c)
			if _, err := s.Lock(t.Context(), "/a", client.Wait(d)); err != nil {
				t.Errorf("Wait(%d): %v", d, err)
			}
		})
	}
}

// Whenever the context ends, the cell keeps no queue position and no unknown
// grant.
func TestCancelledLockLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		a, b := open(t, c), open(t, c)
		for ms := 990; ms <= 1040; ms++ {
			path := fmt.Sprint("/", ms)
			h := lock(t, a, path)
			time.AfterFunc(time.Second, func() { _ = h.Unlock(context.Background()) })
			ctx := timeout(t, time.Duration(ms)*time.Millisecond)
			got, err := b.Lock(ctx, path)
			if (got == nil) == (err == nil) {
				t.Fatalf("at %d ms: Lock returned %v and %v", ms, got, err)
			}
			time.Sleep(500 * time.Millisecond)
			if err != nil {
				wantErr(t, err, context.DeadlineExceeded)
				wantTokens(t, tc, path)
			}
			if tc.waiting(path) != 0 {
				t.Errorf("at %d ms: still in the queue", ms)
			}
		}
	})
}

// A request may arrive late, after its caller gave up, and be granted. The
// client releases that grant by twice the delay of the request, however long
// that is. Until then it reads the session ever less often.
func TestLateGrantIsSwept(t *testing.T) {
	for _, ttl := range testrun.Rows(t, 1, []time.Duration{2 * time.Second, 15 * time.Second, time.Minute}) {
		for _, late := range []time.Duration{6 * time.Second, 30 * time.Second, 3 * time.Minute} {
			bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
				s := open(t, c, client.TTL(ttl))
				var granted atomic.Bool
				tc.delayBy(func(r *http.Request) time.Duration {
					if r.Method != http.MethodPut {
						return 0
					}
					time.AfterFunc(late+3*time.Millisecond, func() {
						if len(tc.held("/a")) > 0 {
							granted.Store(true)
						}
					})
					return late
				})
				ctx := timeout(t, time.Second)
				wantErr(t, second(s.Lock(ctx, "/a")), context.DeadlineExceeded)
				isReview := func(r sentRequest) bool {
					return r.method == http.MethodGet && r.path == "/v1/sessions/"+s.ID()
				}
				time.Sleep(late - 2*time.Second)
				if n := tc.count(isReview); n > 25 {
					t.Errorf("the session was read %d times within %v", n, late)
				}
				time.Sleep(time.Second + tc.latency + max(client.LostTime, late) + s.TTL())
				if !granted.Load() {
					t.Errorf("ttl %v, late by %v: it was not granted", ttl, late)
				}
				if held := tc.held("/a"); len(held) != 0 {
					t.Errorf("ttl %v, late by %v: it is still held", ttl, late)
				}
			})
		}
	}
}

// TestLateRepeatOfALoss: an attempt of a request arrives after the lock, which
// another attempt got, was lost. The client releases that grant as well.
func TestLateRepeatOfALoss(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		const late = 5 * time.Second
		var once atomic.Bool
		tc.delayBy(func(r *http.Request) time.Duration {
			if r.Method == http.MethodPut && once.CompareAndSwap(false, true) {
				return late
			}
			return 0
		})
		h, err := s.TryLock(t.Context(), "/a")
		must(t, err)
		tc.ReleaseByForce("/a")
		wantDone(t, h)
		wantErr(t, h.Unlock(t.Context()), client.ErrLockLost)
		time.Sleep(late)
		wantEqual(t, "late grants", len(tc.held("/a")), 1)
		time.Sleep(client.LostTime + s.TTL())
		wantEqual(t, "grants later", len(tc.held("/a")), 0)
	})
}

// After a lost answer the client repeats the call with the same handle and gets
// the same grant.
func TestLostAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		lost := map[string]int{}
		tc.dropIf(func(r *http.Request) bool {
			if r.Method == http.MethodPost {
				return false
			}
			lost[r.Method]++
			return lost[r.Method] <= 2
		})
		h := lock(t, s, "/a")
		wantTokens(t, tc, "/a", h.Token())
		must(t, h.Unlock(t.Context()))
		wantTokens(t, tc, "/a")
	})
}

// Unlock releases the lock although its context has ended. Without an answer it
// gives up in time, and the session releases the lock later.
func TestUnlockGoesOnInTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must(t, lock(t, s, "/a").Unlock(ctx))
		wantTokens(t, tc, "/a")
		h := lock(t, s, "/a")
		tc.all(true)
		began := time.Now()
		if err := h.Unlock(ctx); err == nil {
			t.Fatal("unlock succeeded without a cell")
		}
		wantWithin(t, began, client.ReleaseTime)
		tc.all(false)
		time.Sleep(5 * time.Second)
		wantTokens(t, tc, "/a")
		wantState(t, s, client.Safe)
		must(t, h.Unlock(t.Context()))
	})
}

// A waiter keeps its queue position over a change of master, and the new master
// grants the lock. This holds whether the old master breaks the connection or
// falls silent.
func TestLockWaitsOverChangeOfMaster(t *testing.T) {
	for name, fail := range map[string]func(*testCell){
		"killed": func(tc *testCell) { tc.kill("r1") },
		"silent": func(tc *testCell) { tc.isolate("r1", true) },
	} {
		subBubble(t, name, func(t *testing.T, tc *testCell, c *client.Client) {
			a, b := open(t, c), open(t, c)
			h := lock(t, a, "/a")
			time.AfterFunc(time.Second, func() { fail(tc) })
			time.AfterFunc(2*time.Second, func() { tc.Elect("r2") })
			time.AfterFunc(14*time.Second, func() {
				wantEqual(t, "unlock", h.Unlock(context.Background()), nil)
			})
			next := lock(t, b, "/a")
			if got := tc.now(); got > 15*time.Second {
				t.Errorf("granted at %s, want soon after 14 s", got)
			}
			wantTokens(t, tc, "/a", next.Token())
		})
	}
}

func TestSessionEndsLockReturns(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		a, b := open(t, c), open(t, c)
		lock(t, a, "/a")
		time.AfterFunc(time.Second, func() { _ = b.Close(context.Background()) })
		wantErr(t, second(b.Lock(t.Context(), "/a")), client.ErrSessionClosed)
		synctest.Wait()

		d := open(t, c)
		time.AfterFunc(time.Second, func() { _ = admin.New(c).KillSession(context.Background(), d.ID()) })
		wantErr(t, second(d.Lock(t.Context(), "/a")), client.ErrSessionExpired)
	})
}

// slowPuts delays each request for a lock.
type slowPuts struct {
	http.RoundTripper
	by time.Duration
}

func (s slowPuts) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		client.Sleep(r.Context(), s.by)
	}
	return s.RoundTripper.RoundTrip(r)
}

// The wait ends while the grant is on its way. Lock does not return a grant
// that the withdrawal released.
func TestGrantCrossesTheWithdrawal(t *testing.T) {
	for _, n := range testrun.Sample(t, 31, 31) {
		ms := 1990 + n
		bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
			h := lock(t, open(t, c), "/a")
			slow := tc.by(t, slowPuts{tc, 1500 * time.Millisecond}, "http://r1")
			s := open(t, slow)
			time.AfterFunc(time.Duration(ms)*time.Millisecond, func() { _ = h.Unlock(context.Background()) })
			got, err := s.Lock(t.Context(), "/a", client.Wait(time.Second))
			if (got == nil) == (err == nil) {
				t.Fatalf("free after %d ms: Lock returned %v and %v", ms, got, err)
			}
			if err == nil {
				wantTokens(t, tc, "/a", got.Token())
				return
			}
			wantErr(t, err, client.ErrLockHeld)
			time.Sleep(5 * time.Second)
			wantTokens(t, tc, "/a")
			if tc.waiting("/a") != 0 {
				t.Errorf("free after %d ms: still in the queue", ms)
			}
		})
	}
}

// Only a refusal with a code that rules it out proves that nothing is left in
// the cell. After any other refusal the client sends a release.
func TestRefusalsThatLeaveNothing(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		lock(t, s, "/a", client.Limit(2))
		for _, test := range []struct {
			opts     []client.LockOption
			want     error
			releases int
		}{
			{nil, client.ErrLockHeld, 0},
			{[]client.LockOption{client.Limit(3)}, client.ErrConflict, 1},
		} {
			before := tc.count(isMethod(http.MethodDelete))
			wantErr(t, second(s.TryLock(t.Context(), "/a", test.opts...)), test.want)
			if n := tc.count(isMethod(http.MethodDelete)) - before; n != test.releases {
				t.Errorf("%v: %d releases followed, want %d", test.want, n, test.releases)
			}
		}
	})
}

// tooMany refuses some requests as a cell with exhausted quotas does.
func tooMany(refuse func(*http.Request) bool) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		if !refuse(r) {
			return nil
		}
		resp := refusal(lockapi.Errorf(lockapi.CodeTooMany, "quota max-holds is used up"))
		resp.Header.Set("Retry-After", "7")
		return resp
	}
}

// Lock returns at once when a quota is exhausted, with the cell's Retry-After,
// and sends no release. A release is retried until it succeeds.
func TestTooMany(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		var puts, deletes int
		tc.insteadBy(tooMany(func(r *http.Request) bool {
			if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/full") {
				puts++
				return true
			}
			if r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, lockapi.RouteLocks) {
				deletes++
				return deletes < 4
			}
			return false
		}))
		s := open(t, c)
		_, err := s.Lock(t.Context(), "/full")
		wantErr(t, err, client.ErrTooMany)
		var e *lockapi.Error
		if !errors.As(err, &e) || e.RetryAfter != 7 || puts != 1 || deletes != 0 {
			t.Errorf("%v after %d calls and %d releases; want one call and its Retry-After", err, puts, deletes)
		}
		held, began := lock(t, s, "/a"), time.Now()
		if err := held.Unlock(t.Context()); err != nil || deletes != 4 || time.Since(began) < 3*7*time.Second {
			t.Errorf("%v after %d calls within %s", err, deletes, time.Since(began))
		}
	})
}
