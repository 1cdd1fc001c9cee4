package client

import (
	"context"
	"errors"

	"github.com/stoutlock/stout/lockapi"
)

// Resume returns a new Held for the same grant, after the session has come out
// of a jeopardy: the cell kept the lock held, but the client could not know. It
// waits until the session is safe. The token is the same. The caller decides
// whether interrupted work may continue. If the hold has not ended, Resume
// returns it unchanged.
//
// Errors: ErrLockLost if the cell no longer holds the lock for this session,
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
		state, err := s.read(ctx)
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

// newest returns the acquisition's present Held if it is good, or the error
// that prevents one; nil and nil if the hold may be resumed.
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
	case a.phase != holding, a.short:
		return nil, ErrLockLost
	case reason == nil:
		return a.held, nil
	}
	return nil, nil
}

// readopt gives the acquisition a new Held if the cell still has its grant;
// otherwise the hold is lost. The lease's mutex is held, and the session is
// safe.
func (a *acquisition) readopt(ctx context.Context, state *lockapi.SessionState) *Held {
	a.s.locks.mu.Lock()
	defer a.s.locks.mu.Unlock()
	if a.phase != holding || a.held.ctx.Err() == nil {
		return nil
	}
	left := 1 + len(a.with)
	for _, one := range state.Holds {
		if one.Handle == a.handle && a.names(one.Path) && a.has(one.Token) {
			left--
		}
	}
	if left > 0 {
		a.s.locks.lose(a, a.token)
		return nil
	}
	old := a.held
	h := newHeld(ctx, a)
	h.token, h.sequencer, h.grantedAt = old.token, old.sequencer, old.grantedAt
	a.held = h
	return h
}
