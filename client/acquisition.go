package client

import (
	"context"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/lockapi"
)

// phase is the progress of an acquisition.
type phase int

const (
	waiting phase = iota // asking for the lock
	holding              // granted, and handed out as a Held
	leaving              // being released
	gone                 // no longer in the cell, or left to the reconciler
)

// acquisition is one handle's state at one lock, from the first request to the
// end of the release. Handles are never reused: a late request can therefore
// never be mistaken for a newer hold's.
type acquisition struct {
	s      *Session
	path   string
	handle string
	opts   lockOptions
	above  uint64              // the highest token known when the handle was made
	req    lockapi.LockRequest // not changed once the lock is held

	// Guarded by the mutex of the session's acquisitions.
	phase phase
	token uint64             // of the grant, from holding on
	with  []grantedWith      // the other locks, of With
	short bool               // one of several locks is lost; the others are held until Unlock
	lost  uint64             // the highest token of a grant that the cell reports as lost
	held  *Held              // the newest view of the hold
	cut   context.CancelFunc // ends the call under way

	// Used only by the goroutine that works on the acquisition: Lock's first,
	// then Unlock's.
	unsettled bool // a request may yet arrive at the cell, and be granted
	resting   bool // the cell certainly has neither a grant nor a queue position of it
	withdrawn error
	anew      bool // a part of several locks was given back, to begin anew

	release release
}

// grantedWith is one of the other locks of an acquisition.
type grantedWith struct {
	path, sequencer string
	token           uint64 // from holding on
}

// each calls f for each path of the acquisition, with the token of its grant.
func (a *acquisition) each(f func(path string, token uint64)) {
	f(a.path, a.token)
	for i := range a.with {
		f(a.with[i].path, a.with[i].token)
	}
}

// names reports whether a path is one of the acquisition's.
func (a *acquisition) names(path string) (names bool) {
	a.each(func(p string, _ uint64) { names = names || p == path })
	return names
}

// has reports whether a token is one of the grant's. The mutex is held.
func (a *acquisition) has(token uint64) (has bool) {
	a.each(func(_ string, t uint64) { has = has || t == token })
	return has
}

// release is the state of an acquisition's release.
type release struct {
	turn      chan struct{} // has the value of the call that works; guards the following
	settled   bool          // outcome is final
	outcome   error
	abandoned bool // the reconciler may have done the work
	done      int  // how many of the locks have been released
	missed    bool // one of those was not held
	repeated  bool // an earlier call may have released the next one
}

// newAcquisition makes an acquisition with a fresh handle.
func (s *Session) newAcquisition(path string, o lockOptions) (*acquisition, error) {
	if err := s.lease.over(); err != nil {
		return nil, err
	}
	a := &acquisition{s: s, path: path, opts: o, above: s.c.tokens.highest()}
	a.release.turn = make(chan struct{}, 1)
	for _, other := range o.with {
		a.with = append(a.with, grantedWith{path: other})
	}
	if err := s.locks.enter(a); err != nil {
		return nil, err
	}
	a.req = o.request(s.id, a.handle)
	return a, nil
}

// wanted returns what the answer to a request for the lock must match.
func (a *acquisition) wanted(req *lockapi.LockRequest) call.Required {
	return call.Required{
		Path: a.path, Session: req.Session, Handle: a.handle, Mode: req.Mode, Queue: req.Queue, LastToken: a.above, With: req.With,
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

// forget ends an acquisition that the cell no longer has.
func (a *acquisition) forget() {
	a.s.locks.remove(a)
	if a.unsettled {
		a.s.reconciler.expectOrphans()
	}
}

// abandon leaves the acquisition's remains in the cell to the reconciler.
func (a *acquisition) abandon() {
	a.s.locks.remove(a)
	a.s.reconciler.lookNow()
}

// hold makes a Held of a grant, once the session is safe.
func (a *acquisition) hold(ctx context.Context, grant *lockapi.Grant) (*Held, error) {
	h := newHeld(ctx, a)
	h.token, h.sequencer = grant.Token, grant.Sequencer
	if grant.GrantedAt != nil {
		h.grantedAt = *grant.GrantedAt
	}
	for ctx.Err() == nil {
		if a.s.lease.whileSafe(func() { a.adopt(h, grant.With) }) {
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

// adopt makes h the view of the hold; with has the grants of the other locks.
func (a *acquisition) adopt(h *Held, with []lockapi.GrantPart) {
	a.s.locks.mu.Lock()
	defer a.s.locks.mu.Unlock()
	a.phase, a.token, a.held = holding, h.token, h
	a.s.c.tokens.note(h.token)
	for i := range with {
		a.with[i].token, a.with[i].sequencer = with[i].Token, with[i].Sequencer
		a.s.c.tokens.note(with[i].Token)
	}
	if h.token <= a.lost {
		a.s.locks.lose(a, h.token)
	}
}

// isHeld reports whether the lock is held, as far as the client knows.
func (a *acquisition) isHeld() bool {
	a.s.locks.mu.Lock()
	defer a.s.locks.mu.Unlock()
	return a.phase == holding
}
