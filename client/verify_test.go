package client_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// A grant that does not match the request becomes no hold, and leaves none in
// the cell.
func TestGrantsThatAreNotBelieved(t *testing.T) {
	for name, lie := range testrun.Table(t, 4, map[string]func(*http.Response, map[string]any){
		"other path":       set("path", "/b", "sequencer", "exclusive:2:/b"),
		"no path":          set("path", ""),
		"other session":    set("session", "s9"),
		"other handle":     set("handle", "h"),
		"no handle":        set("handle", nil),
		"other mode":       set("mode", "shared", "sequencer", "shared:2:/a"),
		"no token":         set("token", 0),
		"token too high":   set("token", uint64(lockapi.MaxToken+1), "sequencer", "exclusive:9007199254740992:/a"),
		"negative token":   set("token", -2),
		"old token":        set("token", 1, "sequencer", "exclusive:1:/a"),
		"other sequencer":  set("sequencer", "exclusive:3:/a"),
		"longer sequencer": set("sequencer", "exclusive:2:/a/b"),
		"no sequencer":     set("sequencer", ""),
		"queued unasked":   set("state", "queued"),
		"other state":      set("state", "free"),
		"nothing":          nothing,
		"null":             set("path", nil, "state", nil, "session", nil),
		"out of date":      outOfDate,
	}) {
		t.Run(name, func(t *testing.T) {
			amongLies(t, asks(http.MethodPut, "/"), func(t *testing.T, l *liar, c *client.Client) {
				s := open(t, c)
				lock(t, s, "/first") // gets token 1
				l.tell(lie)
				h, err := s.TryLock(t.Context(), "/a")
				if h != nil {
					t.Errorf("the client accepted it: %+v", h)
				}
				wantErr(t, err, client.ErrInternal)
				time.Sleep(30 * time.Second)
				wantTokens(t, l.testCell, "/a")
				l.stop()
				lock(t, s, "/a")
			})
		})
	}
}

func TestSessionsThatAreNotBelieved(t *testing.T) {
	for name, lie := range map[string]func(*http.Response, map[string]any){
		"no id":         set("id", ""),
		"id of a path":  set("id", "a/../b"),
		"id of a query": set("id", "a b"),
		"long id":       set("id", strings.Repeat("x", 129)),
		"longer ttl":    set("ttl_ms", 13_000),
		"shorter ttl":   set("ttl_ms", 1),
		"negative ttl":  set("ttl_ms", -12_000),
		"no epoch":      set("epoch", 0),
		"endless epoch": set("epoch", uint64(1<<63)),
		"nothing":       nothing,
	} {
		amongLies(t, asks(http.MethodPost, lockapi.RouteSessions), func(t *testing.T, l *liar, c *client.Client) {
			l.tell(lie)
			s, err := c.NewSession(t.Context())
			if s != nil || !errors.Is(err, client.ErrInternal) {
				t.Errorf("%s: %v, %v", name, s, err)
			}
		})
	}
}

// No answer extends the lease by more than the session's ttl, counted from
// sending, plus the duration of the call.
func TestLeasesThatAreNotBelieved(t *testing.T) {
	for name, lie := range testrun.Table(t, 2, map[string]func(*http.Response, map[string]any){
		"longer ttl":     set("ttl_ms", 86_400_000),
		"endless ttl":    set("ttl_ms", int64(1<<62)),
		"held for long":  set("held_ms", 86_400_000),
		"held for ever":  set("held_ms", int64(1<<62)),
		"negative held":  set("held_ms", -1),
		"both":           set("held_ms", int64(1<<62), "ttl_ms", int64(1<<62)),
		"much is absent": set("held_ms", nil, "events", nil),
	}) {
		amongLies(t, asks(http.MethodPost, "/keepalive"), func(t *testing.T, l *liar, c *client.Client) {
			s := open(t, c)
			l.tell(lie)
			for range 600 {
				time.Sleep(100 * time.Millisecond)
				if got := s.Remaining(); got <= 0 || got > s.TTL() {
					t.Fatalf("%s: %s of a lease of %s remain", name, got, s.TTL())
				}
			}
			l.testCell.all(true)
			time.Sleep(s.TTL())
			wantState(t, s, client.Jeopardy)
		})
	}
}

// An answer with an old epoch does not extend the lease and does not count as a
// new master. The session continues with the other replicas.
func TestMasterOfThePast(t *testing.T) {
	amongLies(t, isKeepaliveRequest, func(t *testing.T, l *liar, c *client.Client) {
		s := open(t, c)
		h := lock(t, s, "/a")
		l.Elect("r1") // epoch 2
		time.Sleep(10 * time.Second)
		if s.Epoch() != 2 {
			t.Fatalf("epoch is %d", s.Epoch())
		}
		l.tell(set("epoch", 1))
		isRead := func(r sentRequest) bool { return r.method == http.MethodGet && !isLook(r) }
		reads := l.count(isRead)
		time.Sleep(s.TTL() + time.Second)
		wantState(t, s, client.Jeopardy)
		if n := l.count(isRead) - reads; n > 0 {
			t.Errorf("the session was read %d times because of old epochs", n)
		}
		l.stop()
		l.Elect("r2") // epoch 3
		time.Sleep(8 * time.Second)
		wantState(t, s, client.Safe)
		if s.Epoch() != 3 {
			t.Errorf("epoch is %d", s.Epoch())
		}
		if again, err := h.Resume(t.Context()); err != nil || again.Token() != h.Token() {
			t.Errorf("resumed as %v, %v", again, err)
		}
	})
}

func isKeepaliveRequest(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/keepalive") }

// Reads with answers about something else are rejected, too.
func TestReadsThatAreNotBelieved(t *testing.T) {
	amongLies(t, func(*http.Request) bool { return true }, func(t *testing.T, l *liar, c *client.Client) {
		s := open(t, c)
		h := lock(t, s, "/a")
		for name, test := range map[string]struct {
			lie  func(*http.Response, map[string]any)
			read func() error
		}{
			"other lock":    {set("path", "/b"), func() error { _, err := c.ReadLock(t.Context(), "/a"); return err }},
			"no lock":       {nothing, func() error { _, err := c.ReadLock(t.Context(), "/a"); return err }},
			"unknown state": {set("state", "lost"), func() error { _, err := c.ReadLock(t.Context(), "/a"); return err }},
			"old state":     {outOfDate, func() error { _, err := c.ReadLock(t.Context(), "/a"); return err }},
			"no check":      {nothing, func() error { _, err := c.CheckSequencer(t.Context(), h.Sequencer()); return err }},
			"same page":     {set("next", "/"), func() error { return last(c.ListLocks(t.Context(), "")) }},
		} {
			l.tell(test.lie)
			if err := test.read(); !errors.Is(err, client.ErrInternal) {
				t.Errorf("%s: %v", name, err)
			}
			l.stop()
		}
		if l, err := c.ReadLock(t.Context(), "/a", client.Stale()); err != nil || len(l.Holders) != 1 {
			t.Errorf("a stale read: %+v, %v", l, err)
		}
	})
}

// last returns the error with which a list ends.
func last[T any](list func(func(T, error) bool)) (out error) {
	pages := 0
	for _, err := range list {
		if out = err; err != nil {
			return err
		}
		if pages++; pages > 1000 {
			return errors.New("the list does not end")
		}
	}
	return out
}

// If the client rejects the answer to an Unlock, it releases the lock in the
// background.
func TestReleaseThatIsNotBelieved(t *testing.T) {
	amongLies(t, asks(http.MethodDelete, "/a"), func(t *testing.T, l *liar, c *client.Client) {
		h := lock(t, open(t, c), "/a")
		l.tell(nothing)
		wantErr(t, h.Unlock(t.Context()), client.ErrInternal)
		l.stop()
		time.Sleep(5 * time.Second)
		wantTokens(t, l.testCell, "/a")
		must(t, h.Unlock(t.Context()))
	})
}

// An event is only a hint, and a malformed one is not acknowledged.
func TestEventsThatAreNotBelieved(t *testing.T) {
	amongLies(t, isKeepaliveRequest, func(t *testing.T, l *liar, c *client.Client) {
		a, b := open(t, c), open(t, c)
		h := lock(t, a, "/a")
		l.tell(set("events", []any{
			map[string]any{"seq": uint64(1 << 63), "type": lockapi.EventLockGranted, "path": "/a", "handle": b.Prefix() + "1", "token": 77},
			map[string]any{"seq": 5, "type": lockapi.EventLockGranted, "path": "/elsewhere", "handle": b.Prefix() + "1", "token": 78, "sequencer": "exclusive:78:/elsewhere"},
			map[string]any{"seq": 6, "type": "of_tomorrow", "path": "/a", "handle": b.Prefix() + "1"},
		}))
		puts := l.count(isMethod(http.MethodPut))
		wantErr(t, second(b.Lock(t.Context(), "/a", client.Wait(20*time.Second))), client.ErrLockHeld)
		if n := l.count(isMethod(http.MethodPut)) - puts; n > 1 {
			t.Errorf("the lock was requested %d times", n)
		}
		if h.Err() != nil || b.State() != client.Safe {
			t.Errorf("hold: %v, session: %s", h.Err(), b.State())
		}
		if n := l.count(func(r sentRequest) bool { return isKeepalive(r) && strings.Contains(r.body, `"ack":6`) }); n == 0 {
			t.Error("the valid event was not acknowledged")
		}
	})
}

// A hold at another path does not show that the claim's hold exists.
func TestHoldElsewhereIsLost(t *testing.T) {
	amongLies(t, asks(http.MethodGet, "/v1/sessions/"), func(t *testing.T, l *liar, c *client.Client) {
		s := open(t, c)
		h := lock(t, s, "/a")
		l.tell(set("holds", []any{map[string]any{"path": "/b", "handle": h.Handle(), "mode": "exclusive", "token": h.Token()}}))
		l.Elect("r2")
		<-h.Done()
		wantErr(t, h.Err(), client.ErrLockLost)
	})
}
