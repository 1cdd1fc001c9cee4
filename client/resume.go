package client

import (
	"context"
	"errors"

	"github.com/stoutlock/stout/lockapi"
)

// Resume gives a new Held for the same grant, after a jeopardy that the session
// has come out of: the cell went on holding the lock all the while, but nobody
// here could know. It waits until the session is safe. Whether anything that
// was broken off may be taken up again is for the caller to judge; the token is
// the same. On a hold that is not done it returns that hold itself.
//
// Errors: ErrLockLost where the cell does not hold the lock for us any more,
// ErrUnlocked, ErrSessionExpired, ErrSessionClosed, and the context's.
func (h *Held) Resume(ctx context.Context) (*Held, error) {
	a, s := h.a, h.a.s
	for {
		if err := s.lease.awaitSafe(ctx); err != nil {
			return nil, err
		}
		if now, err := a.newest(); now != nil || err != nil {
			return now, err
		}
		state, err := s.c.ReadSession(ctx, s.id)
		if errors.Is(err, lockapi.CodeSessionNotFound) {
			return nil, s.expire()
		}
		if err != nil {
			return nil, err
		}
		var next *Held
		s.lease.whileSafe(func() { next = a.readopt(ctx, &state) })
		if next != nil {
			return next, nil
		}
		s.reconciler.expectOrphan() // the handle may have another grant
	}
}

// newest is the acquisition's present Held if it is good, or why there can be
// none; nil and nil where the hold may be resumed.
func (a *acquisition) newest() (*Held, error) {
	_ = a.s.lease.over() // reads the clock, which may end the hold
	a.s.locks.mu.Lock()
	defer a.s.locks.mu.Unlock()
	reason := context.Cause(a.held.ctx)
	switch {
	case a.s.locks.over != nil:
		return nil, a.s.locks.over
	case errors.Is(reason, ErrUnlocked):
		return nil, ErrUnlocked
	case a.phase != holding:
		return nil, ErrLockLost
	case reason == nil:
		return a.held, nil
	}
	return nil, nil
}

// readopt gives the acquisition a new Held if the cell holds its grant; else
// that is lost. The lease's mutex is held, and the session safe.
func (a *acquisition) readopt(ctx context.Context, state *lockapi.SessionState) *Held {
	a.s.locks.mu.Lock()
	defer a.s.locks.mu.Unlock()
	if a.phase != holding || a.held.ctx.Err() == nil {
		return nil
	}
	for _, one := range state.Holds {
		if one.Path != a.path || one.Handle != a.handle || one.Token != a.token {
			continue
		}
		old := a.held
		h := newHeld(ctx, a)
		h.token, h.sequencer, h.grantedAt = old.token, old.sequencer, old.grantedAt
		a.held = h
		return h
	}
	a.s.locks.lose(a, a.token)
	return nil
}
