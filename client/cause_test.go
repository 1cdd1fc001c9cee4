package client_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// TestCauseIsNoAnswer: a caller's context may end with an answer that the cell
// gave another caller, for example in an errgroup. Such an answer is not about
// this session.
func TestCauseIsNoAnswer(t *testing.T) {
	type use = func(context.Context, *client.Held) error
	acquire := func(ctx context.Context, h *client.Held) error { return second(h.Session().Lock(ctx, "/b")) }
	for name, row := range map[string]struct {
		lost bool // only keepalives arrive
		use  use
	}{
		"Lock":             {false, acquire},
		"Lock, unanswered": {true, acquire},
		"Put":              {true, func(ctx context.Context, h *client.Held) error { return second(h.Session().Put(ctx, "/f", nil)) }},
		"Unlock":           {true, func(ctx context.Context, h *client.Held) error { return h.Unlock(ctx) }},
		"Resume":           {true, func(ctx context.Context, h *client.Held) error { return second(h.Resume(ctx)) }},
	} {
		subBubble(t, name, func(t *testing.T, tc *testCell, c *client.Client) {
			lock(t, open(t, tc.client(t)), "/b")
			s := open(t, c)
			h := lock(t, s, "/a")
			changed := s.Changed()
			tc.all(true)
			<-changed
			wantDone(t, h)
			changed = s.Changed()
			tc.all(false)
			<-changed
			tc.lose(func(r *http.Request) bool { return row.lost && !isKeepaliveRequest(r) })
			ctx, cancel := context.WithCancelCause(t.Context())
			gone := lockapi.Errorf(lockapi.CodeSessionNotFound, "another session")
			time.AfterFunc(time.Second, func() { cancel(gone) })
			err := row.use(ctx, h)
			if name == "Unlock" { // there ErrSessionExpired, for example, means that no hold was left
				wantErr(t, err, context.Canceled)
				if errors.Is(err, gone) {
					t.Errorf("the cause is passed on: %v", err)
				}
			} else {
				wantErr(t, err, gone)
			}
			must(t, s.Err())
			wantState(t, s, client.Safe)
		})
	}
}

// TestCauseLeavesNoGrant: the same for a cause that means, as an answer, that
// there is nothing to release.
func TestCauseLeavesNoGrant(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		s := open(t, tc.by(t, slowPuts{tc, 50 * time.Millisecond}, tc.URLs()...))
		ctx, cancel := context.WithCancelCause(t.Context())
		held := lockapi.Errorf(lockapi.CodeLockHeld, "another lock")
		time.AfterFunc(10*time.Millisecond, func() { cancel(held) })
		wantErr(t, second(s.Lock(ctx, "/a")), held)
		time.Sleep(time.Minute)
		wantTokens(t, tc, "/a")
	})
}
