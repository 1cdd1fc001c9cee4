package client

import (
	"context"
	"sync"

	"github.com/stoutlock/stout/lockapi"
)

// phase is how far an acquisition has come.
type phase int

const (
	waiting phase = iota // asking for the lock
	holding              // granted, and handed out as a Held
	leaving              // being released
	gone                 // nothing of it is left in the cell, or it is left to the reconciler
)

// acquisition is one handle's business with one lock, from the first request to
// the end of the release. Handles are never used twice: a request that arrives
// late can so never be taken for a newer hold's.
type acquisition struct {
	s      *Session
	path   string
	handle string
	opts   lockOptions
	above  uint64              // the highest token that was known before there was this handle
	req    lockapi.LockRequest // what is asked for; not changed once the lock is held

	// Guarded by the mutex of the session's acquisitions.
	phase phase
	token uint64             // of the grant, from holding on
	lost  uint64             // the highest token of a grant that the session was told it lost
	held  *Held              // the newest view of the hold
	cut   context.CancelFunc // ends the call under way

	// Touched only by whoever carries the acquisition: Lock first, then Unlock.
	unsettled bool // a request may yet arrive at the cell, and be granted
	resting   bool // certainly nothing of the acquisition is in the cell
	withdrawn error

	release release
}

// release is what is known of an acquisition's release.
type release struct {
	mu       sync.Mutex // held for as long as Unlock works; guards the following
	settled  bool       // outcome stands
	outcome  error
	repeated bool // an earlier call may have done the work
}

// newAcquisition makes one with a fresh handle.
func (s *Session) newAcquisition(path string, o lockOptions) (*acquisition, error) {
	if err := s.lease.over(); err != nil {
		return nil, err
	}
	a := &acquisition{s: s, path: path, opts: o, above: s.c.tokens.highest()}
	if err := s.locks.enter(a); err != nil {
		return nil, err
	}
	a.req = o.request(s.id, a.handle)
	return a, nil
}

// wanted is what the answer to a request for the lock must be about.
func (a *acquisition) wanted(req *lockapi.LockRequest) wanted {
	return wanted{
		path: a.path, session: req.Session, handle: a.handle, mode: req.Mode, queue: req.Queue, above: a.above,
	}
}

// cutOff ends the call under way. The mutex is held.
func (a *acquisition) cutOff() {
	if a.cut != nil {
		a.cut()
	}
}

// arm lets the session's end, and news of the lock, cut a call off.
func (a *acquisition) arm(cut context.CancelFunc) error {
	a.s.locks.mu.Lock()
	defer a.s.locks.mu.Unlock()
	a.cut = cut
	return a.s.locks.over
}

func (a *acquisition) disarm() {
	a.s.locks.mu.Lock()
	defer a.s.locks.mu.Unlock()
	a.cut = nil
}

// forget ends an acquisition that has nothing in the cell any more.
func (a *acquisition) forget() {
	a.s.locks.remove(a)
	if a.unsettled {
		a.s.reconciler.expectOrphans()
	}
}

// abandon leaves to the reconciler what an acquisition may have in the cell.
func (a *acquisition) abandon() {
	a.s.locks.remove(a)
	a.s.reconciler.lookNow()
}

// hold turns a grant into a Held, once the session is safe.
func (a *acquisition) hold(ctx context.Context, grant *lockapi.Grant) (*Held, error) {
	h := newHeld(ctx, a)
	h.token, h.sequencer = grant.Token, grant.Sequencer
	if grant.GrantedAt != nil {
		h.grantedAt = *grant.GrantedAt
	}
	for ctx.Err() == nil {
		if a.s.lease.whileSafe(func() { a.adopt(h) }) {
			return h, nil
		}
		switch err := a.s.lease.awaitSafe(ctx); {
		case err == errWaitOver:
			return nil, errNotSafe
		case err != nil:
			return nil, err
		}
	}
	return nil, context.Cause(ctx)
}

// adopt makes h the view of the hold.
func (a *acquisition) adopt(h *Held) {
	a.s.locks.mu.Lock()
	defer a.s.locks.mu.Unlock()
	a.phase, a.token, a.held = holding, h.token, h
	a.s.c.tokens.note(h.token)
	if h.token <= a.lost {
		a.s.locks.lose(a, h.token)
	}
}

// loseGrant ends the hold of a grant that the cell has taken back.
func (a *acquisition) loseGrant(token uint64) {
	a.s.locks.mu.Lock()
	defer a.s.locks.mu.Unlock()
	a.s.locks.lose(a, token)
}

// isHeld says whether the lock is held, as far as is known here.
func (a *acquisition) isHeld() bool {
	a.s.locks.mu.Lock()
	defer a.s.locks.mu.Unlock()
	return a.phase == holding
}
