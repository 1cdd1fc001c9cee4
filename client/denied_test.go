package client

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// waitFor has somebody wait for a lock beside the test, and tells with what and
// when the wait ended.
func waitFor(t *testing.T, s *Session, path string) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { _, err := s.Lock(t.Context(), path); ended <- err }()
	return ended
}

// Whoever waits for a lock that he may not have any more is told so, and leaves
// nothing behind. The holder keeps his hold.
func TestRightTakenFromAWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		holder, waiter := open(t, c), open(t, c)
		h := lock(t, holder, "/a")
		for _, waited := range []time.Duration{time.Second, 40 * time.Second} { // the second wait was told of its place
			f.set(func() { f.forbidden["/a"] = false })
			ended := waitFor(t, waiter, "/a")
			time.Sleep(waited)
			f.forbid("/a")
			began := time.Now()
			wantErr(t, <-ended, ErrPermissionDenied)
			if took := time.Since(began); took > time.Second {
				t.Errorf("after %s of waiting it took %s to end", waited, took)
			}
			time.Sleep(time.Minute)
			if err := h.Err(); err != nil || f.waiting("/a") != 0 {
				t.Errorf("the hold ended (%v), or %d still wait", err, f.waiting("/a"))
			}
		}
		wantState(t, waiter, Safe)
		if err := h.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A wait at a replica that says nothing any more ends by the news on the
// session's keepalive.
func TestWithdrawnWhileTheCallHangs(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		holder, waiter := open(t, c), open(t, c)
		lock(t, holder, "/a")
		ended := waitFor(t, waiter, "/a")
		time.Sleep(longPoll - time.Second)
		var hang atomic.Bool
		hang.Store(true)
		f.set(func() { // calls for the lock hang, wherever they go
			f.delay = func(r *http.Request) time.Duration {
				if r.Method == http.MethodPut && hang.Load() {
					return time.Hour
				}
				return 0
			}
		})
		time.Sleep(5 * time.Second)
		hang.Store(false)
		f.forbid("/a")
		began := time.Now()
		wantErr(t, <-ended, ErrPermissionDenied)
		if took := time.Since(began); took > 2*lateAnswer+time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// News of a place that nobody here waits in, or of another path, or that are
// wrong, end no wait and no hold.
func TestWrongNewsOfAWithdrawal(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s, other := open(t, c), open(t, c)
		h := lock(t, s, "/mine")
		lock(t, other, "/b")
		ended := waitFor(t, s, "/b")
		time.Sleep(35 * time.Second)
		for path, handle := range map[string]string{"/mine": h.Handle(), "/x": "who", "/b": f.queued("/b")} {
			f.set(func() {
				f.seq++
				f.sessions[s.ID()].events = append(f.sessions[s.ID()].events, lockapi.Event{
					Seq: f.seq, Type: lockapi.EventLockWithdrawn, Path: path, Handle: handle, Reason: lockapi.ReasonDenied})
			})
			time.Sleep(time.Second)
		}
		select {
		case err := <-ended:
			t.Errorf("the wait ended: %v", err)
		default:
		}
		if h.Err() != nil || f.waiting("/b") != 1 {
			t.Errorf("hold: %v; %d wait", h.Err(), f.waiting("/b"))
		}
	})
}

// queued is the handle of the first who waits for a lock.
func (f *fakeCell) queued(path string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.locks[path].queue[0].req.Handle
}

// gatekeeper lets those in who show the right token.
type gatekeeper struct {
	f      *fakeCell
	behind map[string]string // by replica, the token that it still takes for the right one
	shown  atomic.Value      // by the client
}

// secured makes a client that shows a token of a cell which asks for one.
func secured(t *testing.T, f *fakeCell) (*gatekeeper, *Client) {
	t.Helper()
	g := &gatekeeper{f: f, behind: make(map[string]string)}
	g.shown.Store("stout_1")
	g.wants("stout_1")
	c, err := Config{
		URLs: []string{"http://r1", "http://r2", "http://r3"}, Transport: f,
		Clock: func() time.Duration { return time.Since(f.start) },
	}.New(WithToken(func(context.Context) (string, error) { return g.shown.Load().(string), nil }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return g, c
}

// wants has the cell take another token from now on, but for the replicas that
// are behind.
func (g *gatekeeper) wants(token string) {
	g.f.set(func() {
		g.f.gate = func(r *http.Request) *lockapi.Error {
			right := token
			if old, ok := g.behind[r.URL.Host]; ok {
				right = old
			}
			if r.Header.Get("Authorization") == "Bearer "+right || r.URL.Path == lockapi.RouteReady {
				return nil
			}
			return lockapi.Errorf(lockapi.CodeUnauthenticated, "%s does not know the token", r.URL.Host)
		}
	})
}

// A watch whose credential has ended goes on by the one that it was exchanged
// for, and misses nothing.
func TestWatchGoesOnByANewToken(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
		g, c := secured(t, f)
		w := watchFor(t, c, 0)
		f.put("/a", "1")
		time.Sleep(time.Second)
		g.shown.Store("stout_2")
		g.wants("stout_2")
		f.put("/a", "2")
		time.Sleep(10 * time.Second)
		f.put("/a", "3")
		time.Sleep(time.Second)
		wantTold(t, w, 1, 2, 3)
	})
}

// One whose credential has ended for good ends, soon.
func TestWatchEndsWithItsToken(t *testing.T) {
	for name, master := range map[string]string{"a master": "r1", "no master": ""} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
				g, c := secured(t, f)
				w := watchFor(t, c, 0)
				time.Sleep(time.Second)
				f.set(func() { f.master = master })
				g.wants("stout_2")
				time.Sleep(time.Minute)
				_, err := w.over()
				wantErr(t, err, ErrUnauthenticated)
				if !strings.Contains(err.Error(), "does not know the token") {
					t.Errorf("it ends with %v", err)
				}
			})
		})
	}
}

// What a replica that is behind says about a token is no end of a watch.
func TestWatchPassesOverAReplicaThatIsBehind(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
		g, c := secured(t, f)
		g.behind["r2"], g.behind["r3"] = "stout_0", "stout_0"
		for range 8 { // wherever it begins
			w := watchFor(t, c, 0)
			time.Sleep(30 * time.Second)
			f.put("/a", "x")
			time.Sleep(30 * time.Second)
			wantTold(t, w, upTo(uint64(len(f.history())))...)
		}
	})
}

// history is all events so far.
func (f *fakeCell) history() []lockapi.CellEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files.history
}

// A replica that denies again and again is not asked in a loop without pauses.
func TestWatchIsDeniedWithPauses(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		f.set(func() {
			for _, r := range f.replicas {
				r.events.script = sse(lockapi.StreamDenied, 0, struct{}{})
			}
		})
		w := watchFor(t, c, 0)
		time.Sleep(time.Minute)
		_, err := w.over()
		wantErr(t, err, ErrUnauthenticated)
		if n := f.streams(); n > 20 {
			t.Errorf("%d streams were begun", n)
		}
	})
}
