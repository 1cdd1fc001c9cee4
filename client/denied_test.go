package client_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/lockapi"
)

// waitFor waits for a lock in the background, and sends the error with which
// the wait ended.
func waitFor(t *testing.T, s *client.Session, path string) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { _, err := s.Lock(t.Context(), path); ended <- err }()
	return ended
}

// withRights is a bubble with a client. The test grants and revokes its right
// to the lock /a.
func withRights(t *testing.T, test func(t *testing.T, tc *testCell, c *client.Client, mayLock func(bool))) {
	t.Helper()
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		root, err := admin.New(tc.admin).Access().Enable(t.Context(), lockapi.EnableRequest{})
		must(t, err)
		withToken := func(secret string) func(*client.Config) {
			return func(to *client.Config) { to.Token = func(context.Context) (string, error) { return secret, nil } }
		}
		tc.admin = tc.Client(withToken(root.Secret))
		mine, err := admin.New(tc.admin).Access().CreateToken(t.Context(), lockapi.TokenRequest{Principal: "user:a"})
		must(t, err)
		c := tc.knowing(t, client.Config{OnlyURLs: true, Token: func(context.Context) (string, error) { return mine.Secret, nil }}, tc.URLs()...)
		test(t, tc, c, func(may bool) {
			lists := lockapi.AccessLists{Read: []string{"user:a"}}
			if may {
				lists.Lock = lists.Read
			}
			must(t, second(admin.New(tc.admin).Access().PutRule(t.Context(), "/a", lists)))
		})
	})
}

// A waiter that loses its right to the lock gets an error, and leaves nothing
// in the cell. The holder keeps its hold.
func TestRightTakenFromAWaiter(t *testing.T) {
	withRights(t, func(t *testing.T, tc *testCell, c *client.Client, mayLock func(bool)) {
		mayLock(true)
		holder, waiter := open(t, c), open(t, c)
		h := lock(t, holder, "/a")
		for _, waited := range []time.Duration{time.Second, 40 * time.Second} { // in the second wait the client has learned its queue position
			mayLock(true)
			ended := waitFor(t, waiter, "/a")
			time.Sleep(waited)
			mayLock(false)
			began := time.Now()
			wantErr(t, <-ended, client.ErrPermissionDenied)
			if took := time.Since(began); took > time.Second {
				t.Errorf("after %s of waiting it took %s to end", waited, took)
			}
			time.Sleep(time.Minute)
			if err := h.Err(); err != nil || tc.waiting("/a") != 0 {
				t.Errorf("the hold ended (%v), or %d still wait", err, tc.waiting("/a"))
			}
		}
		wantState(t, waiter, client.Safe)
		must(t, h.Unlock(t.Context()))
	})
}

// If the waiting call hangs, the event on the session's keepalive ends the
// wait.
func TestWithdrawnWhileTheCallHangs(t *testing.T) {
	withRights(t, func(t *testing.T, tc *testCell, c *client.Client, mayLock func(bool)) {
		mayLock(true)
		holder, waiter := open(t, c), open(t, c)
		lock(t, holder, "/a")
		ended := waitFor(t, waiter, "/a")
		time.Sleep(client.LongPoll - time.Second)
		var hang atomic.Bool
		hang.Store(true)
		// calls for the lock hang, wherever they go
		tc.delayBy(func(r *http.Request) time.Duration {
			if r.Method == http.MethodPut && hang.Load() {
				return time.Hour
			}
			return 0
		})
		time.Sleep(5 * time.Second)
		hang.Store(false)
		mayLock(false)
		began := time.Now()
		wantErr(t, <-ended, client.ErrPermissionDenied)
		wantWithin(t, began, 2*client.LateAnswer+time.Second)
	})
}

// An event about an unknown queue position or another path, or a wrong one,
// ends no wait and no hold.
func TestWrongNewsOfAWithdrawal(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s, other := open(t, c), open(t, tc.client(t))
		h := lock(t, s, "/mine")
		lock(t, other, "/b")
		ended := waitFor(t, s, "/b")
		time.Sleep(35 * time.Second)
		for path, handle := range map[string]string{"/mine": h.Handle(), "/x": "who", "/b": tc.read("/b").Queue[0].Handle} {
			tc.lieBy(func(q *http.Request, _ *http.Response, body map[string]any) {
				if strings.HasSuffix(q.URL.Path, s.ID()+"/keepalive") {
					body["events"] = []any{lockapi.Event{Seq: 1, Type: lockapi.EventLockWithdrawn, Path: path, Handle: handle, Reason: lockapi.ReasonDenied}}
				}
			})
			time.Sleep(10 * time.Second)
		}
		select {
		case err := <-ended:
			t.Errorf("the wait ended: %v", err)
		default:
		}
		if h.Err() != nil || tc.waiting("/b") != 1 {
			t.Errorf("hold: %v; %d wait", h.Err(), tc.waiting("/b"))
		}
	})
}

// gatekeeper admits requests with the right token.
type gatekeeper struct {
	*testCell
	behind       map[string]string // by replica, the old token that it still accepts
	shown, right atomic.Value      // token
}

// secured makes a client with a token, of a cell that requires one.
func secured(t *testing.T, tc *testCell) (*gatekeeper, *client.Client) {
	t.Helper()
	g := &gatekeeper{testCell: tc, behind: make(map[string]string)}
	g.shown.Store("stout_1")
	g.wants("stout_1")
	return g, tc.knowing(t, client.Config{Transport: g, OnlyURLs: true, Token: func(context.Context) (string, error) { return g.shown.Load().(string), nil }}, tc.URLs()...)
}

// wants makes the cell accept another token from now on, except at replicas
// that are behind. Streams notice when they break.
func (g *gatekeeper) wants(token string) {
	g.right.Store(token)
	g.breakConnections()
}

func (g *gatekeeper) RoundTrip(r *http.Request) (*http.Response, error) {
	right := g.right.Load()
	if old, ok := g.behind[r.URL.Host]; ok {
		right = old
	}
	r = r.Clone(r.Context())
	shown := r.Header.Get("Authorization")
	r.Header.Del("Authorization")
	if shown == "Bearer "+right.(string) || r.URL.Path == lockapi.RouteReady {
		return g.testCell.RoundTrip(r)
	}
	client.Sleep(r.Context(), g.latency)
	return refusal(lockapi.Errorf(lockapi.CodeUnauthenticated, "%s does not know the token", r.URL.Host)), nil
}

// A watch with a replaced token continues with the new one, and misses no
// event.
func TestWatchGoesOnByANewToken(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		g, c := secured(t, tc)
		w := watchFor(t, c, 0)
		tc.put("/a", "1")
		time.Sleep(time.Second)
		g.shown.Store("stout_2")
		g.wants("stout_2")
		tc.put("/a", "2")
		time.Sleep(10 * time.Second)
		tc.put("/a", "3")
		time.Sleep(time.Second)
		wantTold(t, w, tc.past(0, nil)...)
	})
}

// Watches of a cell in which nothing changes outlive any number of tokens, at one
// replica and at three, alone and on a stream that they share.
func TestWatchOutlivesItsTokens(t *testing.T) {
	for name, c := range map[string]struct{ replicas, watches int }{"alone": {3, 1}, "shared": {3, 2}, "one address": {1, 1}} {
		subBubble(t, name, func(t *testing.T, tc *testCell, _ *client.Client) {
			root, err := admin.New(tc.admin).Access().Enable(t.Context(), lockapi.EnableRequest{})
			must(t, err)
			tc.admin = tc.Client(func(to *client.Config) {
				to.Token = func(context.Context) (string, error) { return root.Secret, nil }
			})
			access := admin.New(tc.admin).Access()
			must(t, second(access.PutRule(t.Context(), "/", lockapi.AccessLists{Read: []string{"user:a"}})))
			var shown atomic.Value
			rotate := func() {
				token, err := access.CreateToken(t.Context(), lockapi.TokenRequest{Principal: "user:a", TTLMS: 30_000})
				must(t, err)
				shown.Store(token.Secret)
			}
			rotate()
			client := tc.knowing(t, client.Config{OnlyURLs: true, Token: func(context.Context) (string, error) { return shown.Load().(string), nil }}, tc.URLs()[:c.replicas]...)
			var all []*audience
			before := tc.revision()
			for range c.watches {
				all = append(all, watchFor(t, client, before))
			}
			for range 6 {
				time.Sleep(25 * time.Second)
				rotate()
			}
			time.Sleep(10 * time.Second)
			tc.put("/a", "1")
			time.Sleep(time.Second)
			for _, w := range all {
				if _, err := w.over(); err != nil || len(w.told()) != 1 {
					t.Errorf("%d events; it ended: %v", len(w.told()), err)
				}
			}
		})
	}
}

// A watch with a token that is no longer valid ends soon.
func TestWatchEndsWithItsToken(t *testing.T) {
	for name, master := range map[string]string{"a master": "r1", "no master": ""} {
		subBubble(t, name, func(t *testing.T, tc *testCell, _ *client.Client) {
			g, c := secured(t, tc)
			w := watchFor(t, c, 0)
			time.Sleep(time.Second)
			if master == "" {
				tc.Depose()
			}
			g.wants("stout_2")
			time.Sleep(time.Minute)
			_, err := w.over()
			wantErr(t, err, client.ErrUnauthenticated)
			if !strings.Contains(err.Error(), "does not know the token") {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

// A watch does not end because a replica that is behind rejects its token.
func TestWatchPassesOverAReplicaThatIsBehind(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		g, c := secured(t, tc)
		g.behind["r2"], g.behind["r3"] = "stout_0", "stout_0"
		for range 8 { // wherever it begins
			w := watchFor(t, c, 0)
			time.Sleep(30 * time.Second)
			tc.put("/a", "x")
			time.Sleep(30 * time.Second)
			wantTold(t, w, tc.past(0, nil)...)
		}
	})
}

// A watch pauses between attempts at replicas that deny it.
func TestWatchIsDeniedWithPauses(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		tc.script(sse(lockapi.StreamDenied, 0, struct{}{}))
		w := watchFor(t, c, 0)
		time.Sleep(time.Minute)
		wantErr(t, second(w.over()), client.ErrUnauthenticated)
		wantAtMost(t, tc.streams(), 20, "streams were begun")
	})
}
