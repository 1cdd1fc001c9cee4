package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
)

func open(t *testing.T, c *client.Client, opts ...client.SessionOption) *client.Session {
	t.Helper()
	s, err := c.NewSession(t.Context(), opts...)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Close(ctx) // fails if the test has left no cell
	})
	return s
}

func lock(t *testing.T, s *client.Session, path string, opts ...client.LockOption) *client.Held {
	t.Helper()
	h, err := s.Lock(t.Context(), path, opts...)
	must(t, err)
	return h
}

func wantState(t *testing.T, s *client.Session, want client.State) {
	t.Helper()
	if got := s.State(); got != want {
		t.Fatalf("state is %s, want %s", got, want)
	}
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("error is %v, want %v", got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// second returns the error of a call with a result.
func second[T any](_ T, err error) error { return err }

// wantWithin checks how long ago something began.
func wantWithin(t *testing.T, began time.Time, most time.Duration) {
	t.Helper()
	if took := time.Since(began); took > most {
		t.Errorf("it took %s, want at most %s", took, most)
	}
}

// wantAtMost checks a number of events.
func wantAtMost[N int | int64](t *testing.T, got, most N, events string) {
	t.Helper()
	if got > most {
		t.Errorf("%d %s, want at most %d", got, events, most)
	}
}

// wantEqual compares a result.
func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// timeout returns a context that ends after d, or with the test.
func timeout(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func wantTokens(t *testing.T, tc *testCell, path string, want ...uint64) {
	t.Helper()
	if got := tc.held(path); !slices.Equal(got, want) {
		t.Fatalf("tokens of the holders of %s are %v, want %v", path, got, want)
	}
}

func isKeepalive(r sentRequest) bool { return strings.HasSuffix(r.path, "/keepalive") }

// The lease of a new session counts from the sending of the first call that may
// have opened it.
func TestNewSessionCountsFromTheFirstSending(t *testing.T) {
	for name, test := range map[string]struct {
		disturb func(*testCell)
		least   time.Duration // that the opening takes
	}{
		"slow network": {func(tc *testCell) { tc.set(func() { tc.latency = time.Second }) }, 2 * time.Second},
		"lost answer": {func(tc *testCell) {
			var answers atomic.Int32
			tc.dropIf(func(*http.Request) bool { return answers.Add(1) == 1 })
		}, 20 * time.Millisecond},
		"hedged": {func(tc *testCell) { tc.Elect("r2"); tc.isolate("r1", true) }, client.HedgeAfter},
	} {
		subBubble(t, name, func(t *testing.T, tc *testCell, c *client.Client) {
			test.disturb(tc)
			began := tc.now()
			s := open(t, c)
			opened := tc.now() - began
			if opened < test.least {
				t.Fatalf("opened in %s: the test shows nothing", opened)
			}
			wantEqual(t, "remaining", s.Remaining(), 12*time.Second-opened)
			if s.TTL() != 12*time.Second || s.Epoch() < 1 || s.ID() == "" || s.State() != client.Safe {
				t.Errorf("session is %s, ttl %s, epoch %d, id %q", s.State(), s.TTL(), s.Epoch(), s.ID())
			}
			for other, err := range admin.New(tc.admin).ListSessions(t.Context()) {
				if err != nil || other.ID != s.ID() {
					t.Errorf("another session was opened: %+v, %v", other, err)
				}
			}
		})
	}
}

// Opening a session may take longer than the ttl and the grace period. The
// client checks that the session lives before it returns it.
func TestNewSessionAfterALongOutage(t *testing.T) {
	for _, away := range []time.Duration{5 * time.Second, 11 * time.Second, 13 * time.Second, 2 * time.Minute} {
		bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
			end := time.Now().Add(away)
			// each call opens a session, and its answer gets lost
			tc.dropIf(func(*http.Request) bool { return time.Now().Before(end) })
			s := open(t, c)
			tc.set(func() { tc.drop = nil })
			wantState(t, s, client.Safe)
			least := tc.leaseInCell(s)
			if got := s.Remaining(); got <= 0 || got > least {
				t.Errorf("after %s: %s remain here, and %s in the cell", away, got, least)
			}
			lock(t, s, "/a")
		})
	}
}

// A keepalive extends the lease to sending + held + ttl, however late its
// answer arrives.
func TestKeepaliveCountsFromSendingPlusHeld(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		tc.set(func() { tc.latency = 300 * time.Millisecond })
		time.Sleep(9500 * time.Millisecond)
		var sent time.Duration
		for _, r := range slices.Backward(tc.sent()) {
			if isKeepalive(r) {
				sent = r.at // of the first, which alone has been answered
			}
		}
		// The server held the call for 6 to 8 s less the latency, and reports for
		// how long.
		got := s.Remaining() + tc.now()
		held := got - sent - s.TTL()
		if held < 5*time.Second || held > 8*time.Second {
			t.Errorf("the lease ends %s after sending + ttl, want how long the server held the call, as reported (5 s to 8 s)", held)
		}
		if answered := tc.now() + s.TTL(); got >= answered-300*time.Millisecond {
			t.Errorf("the lease ends at %s: counted from the answer", got)
		}
	})
}

// A session survives a black-holed master, even with the shortest ttl.
func TestShortSessionSurvivesBlackHole(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 3 * time.Second, 12 * time.Second, time.Minute} {
		subBubble(t, ttl.String(), func(t *testing.T, tc *testCell, c *client.Client) {
			s := open(t, c, client.TTL(ttl))
			h := lock(t, s, "/a")
			time.Sleep(ttl)
			tc.isolate("r1", true)
			tc.Elect("r2")
			time.Sleep(5 * ttl)
			if s.State() != client.Safe || h.Err() != nil {
				t.Errorf("session %s, hold %v, after r1 fell silent and r2 was elected", s.State(), h.Err())
			}
			if s.Epoch() != 2 {
				t.Errorf("epoch is %d, want 2", s.Epoch())
			}
		})
	}
}

// A keepalive that waits during a handover continues at the next master. That
// master gives the session a whole ttl, and would hold the call for all the
// time it requests. The client so requests at most what its lease has left.
func TestKeepaliveThatIsSentOnKeepsToTheLease(t *testing.T) {
	for first := time.Second; first < 9*time.Second; first += 2 * time.Second {
		for _, later := range [][]time.Duration{{}, {time.Second}, {time.Second, time.Second}, {2 * time.Second, 2 * time.Second, 2 * time.Second}} {
			pauses := append([]time.Duration{first}, later...)
			subBubble(t, fmt.Sprint(pauses), func(t *testing.T, tc *testCell, c *client.Client) {
				h := lock(t, open(t, c), "/a")
				for i, d := range pauses {
					time.Sleep(d)
					tc.Elect([]string{"r2", "r3", "r1"}[i%3])
				}
				time.Sleep(24 * time.Second)
				must(t, h.Err())
			})
		}
	}
}

func TestJeopardyAndRecovery(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		h := lock(t, s, "/a")
		tc.killAll()
		changed := s.Changed()
		<-h.Done()
		if s.Remaining() != 0 {
			t.Errorf("hold ended with %s remaining", s.Remaining())
		}
		<-changed
		wantState(t, s, client.Jeopardy)
		wantErr(t, h.Err(), client.ErrJeopardy)
		wantErr(t, context.Cause(h.Context()), client.ErrJeopardy)

		changed = s.Changed()
		for _, id := range []string{"r1", "r2", "r3"} {
			tc.revive(id)
		}
		tc.Elect("r3") // the cell itself was down: its sessions live
		<-changed
		wantState(t, s, client.Safe)
		wantErr(t, h.Err(), client.ErrJeopardy) // a hold that has ended stays ended

		again, err := h.Resume(t.Context())
		must(t, err)
		if again.Token() != h.Token() || again.Handle() != h.Handle() || again.Err() != nil || again == h {
			t.Errorf("resumed: token %d, was %d; err %v", again.Token(), h.Token(), again.Err())
		}
		if same, err := h.Resume(t.Context()); same != again || err != nil {
			t.Errorf("resumed twice: %p, %v; want %p", same, err, again)
		}
		must(t, h.Unlock(t.Context()))
		wantErr(t, again.Err(), client.ErrUnlocked)
		wantTokens(t, tc, "/a")
		wantErr(t, second(again.Resume(t.Context())), client.ErrUnlocked)
	})
}

// A hold that was released by force during a jeopardy is lost. A late request
// may have acquired the lock again under the same handle; the client releases
// that later grant.
func TestResumeOfALaterGrant(t *testing.T) {
	for _, changes := range []bool{false, true} { // of master, after which the client reads the session
		bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
			s := open(t, c)
			h := lock(t, s, "/a")
			tc.all(true)
			time.Sleep(s.Remaining() / 2)
			tc.keepAlive(s)
			<-h.Done()
			tc.ReleaseByForce("/a")
			tc.acquire(s, "/a", h.Handle())
			if changes {
				tc.Elect("r2")
			}
			tc.all(false)
			wantErr(t, second(h.Resume(t.Context())), client.ErrLockLost)
			wantState(t, s, client.Safe)
			time.Sleep(2 * s.TTL())
			wantTokens(t, tc, "/a")
		})
	}
}

// Holds' contexts end exactly when the local lease does, which is before the
// server may end the session.
func TestHoldEndsWithTheLocalLease(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		h := lock(t, s, "/a")
		tc.all(true)
		left := h.Remaining()
		began := time.Now()
		<-h.Done()
		wantEqual(t, "the hold ended after", time.Since(began), left)
		if tc.leaseInCell(s) <= 0 {
			t.Error("the hold ended later than the lease in the cell")
		}
	})
}

func TestExpiryAfterGrace(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		h := lock(t, s, "/a")
		tc.killAll()
		left := s.Remaining()
		began := time.Now()
		<-s.Done()
		wantEqual(t, "expired after", time.Since(began), left+client.DefaultGrace)
		wantState(t, s, client.Expired)
		wantErr(t, s.Err(), client.ErrSessionExpired)
		wantErr(t, h.Err(), client.ErrJeopardy)
		wantErr(t, h.Unlock(t.Context()), client.ErrSessionExpired)
		wantErr(t, second(s.Lock(t.Context(), "/b")), client.ErrSessionExpired)
		wantErr(t, second(h.Resume(t.Context())), client.ErrSessionExpired)
		must(t, s.Close(t.Context()))
	})
}

func TestCloseFreesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		h := lock(t, s, "/a")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must(t, s.Close(ctx))
		wantErr(t, s.Err(), client.ErrSessionClosed)
		wantErr(t, h.Err(), client.ErrSessionClosed)
		wantTokens(t, tc, "/a")
		wantErr(t, h.Unlock(t.Context()), client.ErrSessionClosed)
		if _, err := admin.New(c).ReadSession(t.Context(), s.ID()); !errors.Is(err, client.ErrSessionNotFound) {
			t.Errorf("the session is still there: %v", err)
		}
	})
}

// The session reads the clock, so a timer that the machine's sleep delayed does
// no harm.
func TestSuspend(t *testing.T) {
	onLaptop(t, func(t *testing.T, l *laptop, h *client.Held) {
		s := h.Session()
		l.sleep(13 * time.Second)
		if s.Remaining() != 0 || s.State() != client.Jeopardy {
			t.Errorf("remaining %s, state %s after a sleep of 13 s", s.Remaining(), s.State())
		}
		l.sleep(time.Hour)
		time.Sleep(client.WakeEvery)
		synctest.Wait()
		if !closed(s.Done()) {
			t.Errorf("state is %s a second after a long sleep", s.State())
		}
	})
}

// If the cell does not answer, Close gives up in bounded time.
func TestCloseWithoutCell(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		tc.killAll()
		ctx := timeout(t, time.Second)
		began := time.Now()
		err := s.Close(ctx)
		wantErr(t, err, client.ErrNoMaster)
		wantErr(t, err, context.DeadlineExceeded)
		wantWithin(t, began, client.ReleaseTime+client.MostPause)
	})
}

// After a change of master the client reads the session once. Holds that the
// cell no longer has are lost.
func TestReconcileAfterEpochChange(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		kept, lost := lock(t, s, "/kept"), lock(t, s, "/lost")
		tc.set(func() { tc.withoutEvents = true })
		tc.ReleaseByForce("/lost")
		tc.acquire(s, "/stray", s.Prefix()+"zz")
		tc.acquire(s, "/foreign", "by-hand")
		tc.Elect("r2")
		<-lost.Done()
		wantErr(t, lost.Err(), client.ErrLockLost)
		wantErr(t, lost.Unlock(t.Context()), client.ErrLockLost)
		wantErr(t, second(lost.Resume(t.Context())), client.ErrLockLost)
		must(t, kept.Err())
		time.Sleep(time.Minute)
		wantTokens(t, tc, "/stray")
		if len(tc.held("/foreign")) != 1 {
			t.Error("a hold by another handle was released")
		}
		if n := tc.count(func(r sentRequest) bool { return r.method == http.MethodGet && r.host == "r2" && !isLook(r) }); n != 1 {
			t.Errorf("the session was read %d times, want once", n)
		}
	})
}

func TestStateStrings(t *testing.T) {
	if got := fmt.Sprint(client.Safe, client.Jeopardy, client.Expired, client.State(7)); got != "safe jeopardy expired unknown" {
		t.Errorf("states are %q", got)
	}
}

// If the release of a stray grant fails, it is repeated later. The session then
// returns to its usual pace of calls.
func TestStrayIsReleasedUntilItIsGone(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		must(t, lock(t, s, "/b").Unlock(t.Context()))
		time.Sleep(time.Second)
		tc.acquire(s, "/a", s.Prefix()+"zz") // a late request of the session
		tc.lose(func(r *http.Request) bool { return r.Method == http.MethodDelete })
		tc.Elect("r2")
		time.Sleep(30 * time.Second)
		if len(tc.held("/a")) != 1 {
			t.Fatal("a release got through: the test shows nothing")
		}
		tc.set(func() { tc.delay = nil })
		time.Sleep(s.TTL())
		wantTokens(t, tc, "/a")
		before := tc.count(isKeepalive)
		time.Sleep(time.Minute)
		wantAtMost(t, tc.count(isKeepalive)-before, 10, "keepalives in a minute")
	})
}
