package simcell

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// After an unknown outcome or a change of master a user may read its session
// and rely on the answer (docs/guarantees.md, guarantee 29). A grant shown
// without unclaimed_ms is the user's own. A grant shown with it must be
// requested again within that time.

// readSession reads a session at one replica. It returns nil if there is no
// answer or the session has ended.
func (u *user) readSession(ctx context.Context, at, id string) *lockapi.SessionState {
	sent, floor := u.w.now(), u.w.oracle.floor()
	var got lockapi.SessionState
	err := u.send(ctx, 5*time.Second, at, u.message(http.MethodGet, lockapi.RouteSessions+"/"+id, nil, &got))
	switch {
	case err == nil:
		u.w.oracle.sessionRead(u.name, sent, floor, got)
		return &got
	case errors.Is(err, lockapi.CodeSessionNotFound):
		u.w.oracle.lost(u.name, id)
	}
	return nil
}

// holdOf returns a pair's hold in a session, or nil.
func holdOf(s *lockapi.SessionState, p pair) *lockapi.Hold {
	if s == nil {
		return nil
	}
	for i, h := range s.Holds {
		if h.Path == p.path && h.Handle == p.handle {
			return &s.Holds[i]
		}
	}
	return nil
}

// reconciles finds out by reading what became of a pair's call of unknown
// outcome. It relies on a grant of its own for longer than a master waits for
// callers that do not retry. A grant that is not its own yet it may request
// again.
func (u *user) reconciles(ctx context.Context, p pair, q lockapi.LockRequest) {
	for range 2 + u.rng.IntN(8) {
		switch h := holdOf(u.readSession(ctx, u.anyone(), p.session), p); {
		case h == nil:
			u.wait(ctx, time.Second)
		case h.UnclaimedMS == 0:
			u.wait(ctx, max(u.w.profile.hold, 6*time.Second))
			u.free(ctx, p, h.Token)
			return
		case u.rng.IntN(3) == 0:
			u.wait(ctx, 2*time.Duration(h.UnclaimedMS)*time.Millisecond)
		default:
			u.wait(ctx, time.Duration(h.UnclaimedMS)*time.Millisecond)
			u.claims(ctx, p, q)
		}
	}
	u.free(ctx, p, 0)
}

// claims requests again a grant that the session shows as unclaimed.
func (u *user) claims(ctx context.Context, p pair, q lockapi.LockRequest) {
	q.WaitMS, q.Queue = 0, false
	_, _, _ = u.request(ctx, 6*time.Second, u.anyone(), p, q)
}

// inherits lets one of the user's handles wait for a lock that another holds,
// until its call breaks or has an unknown outcome. The first is released at any
// time.
func (u *user) inherits(ctx context.Context, s *client.Session) {
	l := wants[u.rng.IntN(2)]
	first, second := u.newPair(s.ID(), l.path), u.newPair(s.ID(), l.path)
	token := u.acquire(ctx, u.anyone(), first, l, time.Second)
	if token == 0 {
		u.free(ctx, first, 0)
		return
	}
	q := lockapi.LockRequest{Mode: l.mode, WaitMS: 8000}
	released := make(chan struct{})
	go func() {
		defer close(released)
		u.wait(ctx, 8*time.Second)
		u.free(ctx, first, token)
	}()
	patience := between(u.rng, 20*time.Millisecond, 10*time.Second)
	g, _, err := u.request(ctx, patience, u.anyone(), second, q)
	switch {
	case err == nil && g.State == lockapi.StateHeld:
		u.free(ctx, second, g.Token)
	case isUnknown(err):
		u.reconciles(ctx, second, q)
	default:
		u.free(ctx, second, 0)
	}
	select {
	case <-released:
	case <-ctx.Done():
	}
}
