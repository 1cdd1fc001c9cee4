package client

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// phase is how far a claim has come.
type phase int

const (
	waiting phase = iota // asking for the lock
	holding              // granted, and handed out as a Held
	leaving              // being released
	gone                 // nothing of it is left in the cell, or it is left to the sweep
)

// claim is one handle's business with one lock, from the first request to the
// end of the release. Handles are never used twice: a request that arrives
// late can so never be taken for a newer hold's.
type claim struct {
	path   string
	handle string
	mode   lockapi.Mode
	above  uint64              // the highest token that was known before there was this handle
	req    lockapi.LockRequest // what is asked for; not changed once the lock is held

	// Guarded by the session's mutex.
	phase phase
	token uint64             // of the grant, from holding on
	held  *Held              // the newest view of the hold
	cut   context.CancelFunc // ends the call under way

	// Touched only by whoever carries the claim: Lock first, then Unlock.
	unsettled bool // a request may yet arrive at the cell, and be granted
	resting   bool // certainly nothing of the claim is in the cell
	withdrawn error

	releasing sync.Mutex
	released  bool // outcome stands
	outcome   error
	repeated  bool // an earlier release may have done the work
}

func (cl *claim) cutOff() {
	if cl.cut != nil {
		cl.cut()
	}
}

// enter makes a claim with a fresh handle.
func (s *Session) enter(path string, mode lockapi.Mode) (*claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	if s.err != nil {
		return nil, s.err
	}
	s.serial++
	cl := &claim{path: path, mode: mode, above: s.c.tokens.highest(), handle: s.prefix + strconv.FormatUint(s.serial, 36)}
	s.claims[cl.handle] = cl
	return cl, nil
}

// wanted is what the answer to a request for the claim's lock must be about.
func (cl *claim) wanted(req *lockapi.LockRequest) wanted {
	return wanted{
		path: cl.path, session: req.Session, handle: cl.handle, mode: req.Mode, queue: req.Queue, above: cl.above,
	}
}

// arm lets the session's end, and news for the claim, cut a call off.
func (s *Session) arm(cl *claim, cut context.CancelFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	cl.cut = cut
	return s.err
}

func (s *Session) disarm(cl *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cl.cut = nil
}

// askAgain cuts off the calls under way, so that they are made again where the
// master is now; places in queues are kept. A release may be there already, and is
// given time to be answered: of one that was cut off nobody can tell any more whether
// it found the lock held. s.mu is held.
func (s *Session) askAgain() {
	for _, cl := range s.claims {
		if cl.phase == leaving && cl.cut != nil {
			time.AfterFunc(lateAnswer, cl.cut)
			continue
		}
		cl.cutOff()
	}
}

// forget drops a claim that has nothing in the cell any more.
func (s *Session) forget(cl *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cl.phase = gone
	delete(s.claims, cl.handle)
	if cl.unsettled {
		s.expectStrays()
	}
}

// abandon leaves to the sweep what a claim may have in the cell.
func (s *Session) abandon(cl *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cl.phase = gone
	delete(s.claims, cl.handle)
	s.sweepLater()
}

// endHolds cancels the contexts of all holds. s.mu is held.
func (s *Session) endHolds(reason error) {
	for _, cl := range s.claims {
		if cl.phase == holding {
			cl.held.cancel(reason)
		}
	}
}

// hold turns a grant into a Held, once the session is safe.
func (s *Session) hold(ctx context.Context, cl *claim, grant *lockapi.Grant) (*Held, error) {
	h := newHeld(ctx, s, cl)
	h.token, h.sequencer = grant.Token, grant.Sequencer
	if grant.GrantedAt != nil {
		h.grantedAt = *grant.GrantedAt
	}
	for ctx.Err() == nil {
		if s.adopt(cl, h) {
			return h, nil
		}
		switch err := s.awaitSafe(ctx); {
		case err == errWaitOver:
			return nil, errNotSafe
		case err != nil:
			return nil, err
		}
	}
	return nil, context.Cause(ctx)
}

// adopt makes h the claim's view, if the session is safe still.
func (s *Session) adopt(cl *claim, h *Held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	if s.state != Safe {
		return false
	}
	cl.phase, cl.token, cl.held = holding, h.token, h
	s.c.tokens.note(h.token)
	return true
}

// tokens knows the highest token that the client has had of its cell. Every grant
// of a handle made up later has a higher one.
type tokens struct{ n atomic.Uint64 }

func (t *tokens) highest() uint64 { return t.n.Load() }

func (t *tokens) note(token uint64) {
	for known := t.n.Load(); token > known && !t.n.CompareAndSwap(known, token); known = t.n.Load() {
	}
}
