package client_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
)

// Unlock reports a lock that was lost before, if that is certain. It is not if
// a call got lost that may have released the lock. CheckSequencer reports the
// loss before Unlock.
func TestUnlockOfWhatIsLostWhileMastershipMoves(t *testing.T) {
	for name, test := range map[string]struct {
		fail func(*testCell)
		want error
	}{
		"refuses connections": {func(tc *testCell) { tc.kill("r1") }, client.ErrLockLost},
		"is no master":        {func(*testCell) {}, client.ErrLockLost},
		"is silent":           {func(tc *testCell) { tc.isolate("r1", true) }, nil},
	} {
		subBubble(t, name, func(t *testing.T, tc *testCell, c *client.Client) {
			s := open(t, c)
			h := lock(t, s, "/a")
			tc.set(func() { tc.withoutEvents = true })
			must(t, second(admin.New(c).Release(t.Context(), "/a", s.ID(), h.Handle(), 0)))
			test.fail(tc)
			tc.Elect("r2")
			wantEqual(t, "unlock", h.Unlock(t.Context()), test.want)
			if check, err := c.CheckSequencer(t.Context(), h.Sequencer()); err != nil || check.Valid {
				t.Errorf("check: %+v, %v", check, err)
			}
		})
	}
}

// News of another master does not cancel a release that is about to be
// answered: its result would be lost. A release without an answer is repeated
// soon.
func TestNewsOfAMasterWhileUnlocking(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		c := tc.by(t, tc, "http://r1")
		s := open(t, c)
		news := func() {
			s.AskAgain()
		}
		h := lock(t, s, "/a")
		must(t, second(admin.New(c).Release(t.Context(), "/a", s.ID(), h.Handle(), 0)))
		time.AfterFunc(time.Millisecond, news)
		wantErr(t, h.Unlock(t.Context()), client.ErrLockLost)

		h = lock(t, s, "/a")
		tc.isolate("r1", true)
		time.AfterFunc(time.Second, func() { tc.isolate("r1", false); news() })
		began := time.Now()
		must(t, h.Unlock(t.Context()))
		wantWithin(t, began, time.Second+client.LateAnswer+100*time.Millisecond)
	})
}

// A call of Unlock that waits for another one obeys its own context.
func TestUnlockBesideOneThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		h := lock(t, s, "/a")
		tc.all(true)
		first := make(chan error, 1)
		go func() { first <- h.Unlock(t.Context()) }()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		wantErr(t, h.Unlock(ctx), context.DeadlineExceeded)
		wantWithin(t, began, 7*time.Second)
		tc.all(false)
		must(t, <-first)
		must(t, h.Unlock(ctx))
	})
}

// TestHolderLearnsOfAForcedRelease: a forced release ends a hold's context
// within a round trip, at the same master or at its successor. Other holds of
// the session stay. The session also learns of it while the answer with the
// grant is still on its way.
func TestHolderLearnsOfAForcedRelease(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		other := lock(t, s, "/other")

		h := lock(t, s, "/a")
		began := time.Now()
		tc.ReleaseByForce("/a")
		wantDone(t, h)
		wantWithin(t, began, 2*tc.latency)
		wantErr(t, context.Cause(h.Context()), client.ErrLockLost)
		wantErr(t, h.Unlock(t.Context()), client.ErrLockLost)

		h = lock(t, s, "/a")
		tc.all(true)
		tc.ReleaseByForce("/a")
		tc.Elect("r2")
		tc.all(false)
		wantDone(t, h)
		wantErr(t, h.Err(), client.ErrLockLost)

		tc.dropIf(func(q *http.Request) bool {
			if q.Method == http.MethodPut {
				tc.set(func() { tc.drop = nil })
				tc.ReleaseByForce("/a")
				time.Sleep(time.Second)
			}
			return false
		})
		h = lock(t, s, "/a")
		wantDone(t, h)
		wantErr(t, h.Err(), client.ErrLockLost)
		must(t, other.Err())
	})
}

// atLine blocks on lines with one message until a channel is closed.
type atLine struct {
	slog.Handler
	message string
	free    chan struct{}
}

func (atLine) Enabled(context.Context, slog.Level) bool { return true }
func (l atLine) WithAttrs([]slog.Attr) slog.Handler     { return l }

func (l atLine) Handle(_ context.Context, r slog.Record) error {
	if r.Message == l.message {
		<-l.free
	}
	return nil
}

// blockedAt is a bubble with a client that has a logger which blocks on lines
// with one message.
func blockedAt(t *testing.T, message string, test func(*testing.T, *testCell, *client.Client)) {
	subBubble(t, message, func(t *testing.T, tc *testCell, _ *client.Client) {
		free := make(chan struct{})
		defer close(free)
		test(t, tc, tc.knowing(t, client.Config{Logger: slog.New(atLine{slog.DiscardHandler, message, free})}, tc.URLs()...))
	})
}

// TestSessionEndsThoughTheLoggerBlocks: a full pipe behind the logger keeps no
// hold and no session alive. No method waits for it.
func TestSessionEndsThoughTheLoggerBlocks(t *testing.T) {
	for _, message := range []string{"stout: lock lost", "stout: session in jeopardy", "stout: session over"} {
		blockedAt(t, message, func(t *testing.T, tc *testCell, c *client.Client) {
			s := open(t, c)
			a, b := lock(t, s, "/a"), lock(t, s, "/b")
			tc.ReleaseByForce("/a")
			wantDone(t, a)
			tc.all(true)
			defer tc.all(false)
			wantDone(t, b)
			wantErr(t, b.Err(), client.ErrJeopardy)
			wantState(t, s, client.Jeopardy)
			began := time.Now()
			wantErr(t, b.Unlock(timeout(t, time.Second)), client.ErrOutcomeUnknown)
			wantWithin(t, began, client.ReleaseTime+time.Second)
			<-s.Done()
			must(t, s.Close(t.Context()))
		})
	}
}

// TestCloseThoughTheLoggerBlocks: Close ends the session in the cell, and waits
// no longer than its context for the goroutine that keeps it alive.
func TestCloseThoughTheLoggerBlocks(t *testing.T) {
	blockedAt(t, "stout: keepalive failed", func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		lock(t, s, "/a")
		tc.all(true)
		time.Sleep(s.TTL())
		tc.all(false)
		began := time.Now()
		must(t, s.Close(timeout(t, time.Second)))
		wantWithin(t, began, client.ReleaseTime)
		wantTokens(t, tc, "/a")
	})
}

// wantDone waits for the end of a hold, for a minute at most.
func wantDone(t *testing.T, h *client.Held) {
	t.Helper()
	select {
	case <-h.Done():
	case <-time.After(time.Minute):
		t.Fatal("the hold does not end")
	}
}

// A further Unlock ends with the session, even if no replica answers any more.
func TestUnlockAgainEndsWithTheSession(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		h := lock(t, s, "/a")
		tc.all(true)
		defer tc.all(false)
		wantErr(t, h.Unlock(timeout(t, time.Second)), client.ErrOutcomeUnknown)
		wantErr(t, h.Unlock(timeout(t, time.Hour)), client.ErrSessionExpired)
	})
}

// Resume ends with the session, even if no replica answers its question.
func TestResumeEndsWithTheSession(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		h := lock(t, s, "/a")
		tc.all(true)
		<-h.Done()
		tc.insteadBy(func(q *http.Request) *http.Response {
			if q.Method == http.MethodGet && strings.Contains(q.URL.Path, s.ID()) {
				tc.all(true)
			}
			return nil
		})
		tc.all(false)
		wantErr(t, second(h.Resume(timeout(t, time.Hour))), client.ErrSessionExpired)
		tc.insteadBy(nil)
		tc.all(false)
	})
}
