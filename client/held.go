package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Held is one hold of a lock. It is safe for concurrent use.
//
// A Held is good until Done is closed. It then stays done, also when the
// session becomes safe again; Resume then gives a new Held for the same grant.
// In any case call Unlock, unless the session is to end with the program.
type Held struct {
	s         *Session
	cl        *claim
	token     uint64
	sequencer string
	grantedAt time.Time
	ctx       context.Context // its cancellation is the end of the hold
	cancel    context.CancelCauseFunc
	view      guarded // of ctx, which is what Context hands out
}

// newHeld makes a hold that has the values of ctx, and not its end.
func newHeld(ctx context.Context, s *Session, cl *claim) *Held {
	h := &Held{s: s, cl: cl}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	h.view = guarded{Context: h.ctx, end: h.cancel, h: h}
	return h
}

// Path is the lock's path.
func (h *Held) Path() string { return h.cl.path }

// Mode is lockapi.Exclusive or lockapi.Shared.
func (h *Held) Mode() lockapi.Mode { return h.cl.mode }

// Token is the fencing token: higher than that of every earlier grant in the
// cell. Send it along with every request to what the lock protects.
func (h *Held) Token() uint64 { return h.token }

// Sequencer describes the grant for others to check: mode:token:path.
func (h *Held) Sequencer() string { return h.sequencer }

// Handle is the name that this hold has within its session.
func (h *Held) Handle() string { return h.cl.handle }

// GrantedAt is when the lock was granted, on the master's wall clock.
func (h *Held) GrantedAt() time.Time { return h.grantedAt }

// Context does not end when the context given to Lock does: see Session.Do for
// one that ends with both. It carries that one's values, and ends when the hold
// can no longer be relied upon: at the end of the local lease, which
// is before anybody else can get the lock; when the lock is lost or the session
// over; or on Unlock. context.Cause tells which, as Err does. Do the work that
// the lock protects under it.
func (h *Held) Context() context.Context { return &h.view }

// Done is closed when Context ends.
func (h *Held) Done() <-chan struct{} { return h.view.Done() }

// Err is nil until Done is closed, and then ErrJeopardy, ErrLockLost,
// ErrSessionExpired, ErrSessionClosed or ErrUnlocked, whichever came first.
func (h *Held) Err() error {
	_ = h.s.Err() // reads the clock, which may end the hold
	return context.Cause(h.ctx)
}

// Remaining is for how long the hold can still be relied upon unless the
// session's lease is extended, and 0 once Done is closed.
func (h *Held) Remaining() time.Duration {
	left := h.s.Remaining()
	if h.view.Err() != nil {
		return 0
	}
	return left
}

// ValidUntil is Session.ValidUntil.
func (h *Held) ValidUntil() time.Time { return h.s.ValidUntil() }

// Unlock releases the lock. It ends Context first, so that the work stops
// before anybody else can begin. It works under a cancelled context, for a few
// seconds. It may be called again, also by several goroutines: once it has had
// an outcome, all calls return it.
//
// nil says that the lock is released, and was held until then, with one exception:
// where a call got lost or was not answered in time, and a later one finds nothing to
// release, the lost one is taken to have released it. Nobody can tell then whether the
// lock had been taken from us before (Client.Release by somebody else, say). Who must
// know asks Client.CheckSequencer before Unlock.
//
// ErrLockLost, ErrSessionExpired and ErrSessionClosed say that there was nothing left
// to release, for certain. With any other error the cell could not be reached in time; the
// session then goes on releasing the lock in the background.
func (h *Held) Unlock(ctx context.Context) error {
	cl := h.cl
	cl.releasing.Lock()
	defer cl.releasing.Unlock()
	if cl.released {
		return cl.outcome
	}
	end := time.Now().Add(patience)
	for {
		if over := h.s.beginUnlock(cl); over != nil {
			return cl.settled(over)
		}
		released, err := h.release(ctx, end)
		switch {
		case errors.Is(err, errCut):
			continue // there is a new master to ask, or the session is over
		case err == nil && released:
			h.s.forget(cl)
			return cl.settled(nil)
		case err == nil:
			h.s.forget(cl)
			return cl.settled(ErrLockLost)
		case errors.Is(err, lockapi.CodeSessionNotFound):
			return cl.settled(h.s.expire())
		}
		cl.repeated = true
		h.s.abandon(cl)
		return fmt.Errorf("stout: unlock %s: %w", cl.path, err)
	}
}

// release makes one call for Unlock, until end if ctx ends before. It reports false
// where there was nothing to release, and no attempt without an answer, of this call
// or before, can have been the reason.
func (h *Held) release(ctx context.Context, end time.Time) (bool, error) {
	cl := h.cl
	ctx, cut, done := outlast(ctx, time.Until(end))
	defer done()
	if h.s.arm(cl, func() { cut(errCut) }) != nil {
		return false, errCut
	}
	defer h.s.disarm(cl)
	var answer lockapi.Released
	q := releaseCall(cl.path, h.s.id, cl.handle, cl.token)
	q.out = &answer
	err := h.s.c.do(ctx, &q)
	cl.repeated = cl.repeated || q.unsettled
	return answer.Released || cl.repeated, err
}

// settled notes the outcome of the release.
func (cl *claim) settled(outcome error) error {
	cl.released, cl.outcome = true, outcome
	return outcome
}

// beginUnlock ends the hold here, and says why there is nothing to release.
func (s *Session) beginUnlock(cl *claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	cl.held.cancel(ErrUnlocked)
	if s.err != nil {
		return s.err
	}
	if cl.phase == gone && !cl.repeated {
		return ErrLockLost
	}
	cl.phase = leaving
	return nil
}

// Resume gives a new Held for the same grant, after a jeopardy that the session
// has come out of: the cell went on holding the lock all the while, but nobody
// here could know. It waits until the session is safe. Whether anything that
// was broken off may be taken up again is for the caller to judge; the token is
// the same. On a hold that is not done it returns that hold itself.
//
// Errors: ErrLockLost where the cell does not hold the lock for us any more,
// ErrUnlocked, ErrSessionExpired, ErrSessionClosed, and the context's.
func (h *Held) Resume(ctx context.Context) (*Held, error) {
	s, cl := h.s, h.cl
	for {
		if err := s.awaitSafe(ctx); err != nil {
			return nil, err
		}
		if now, err := s.newest(cl); now != nil || err != nil {
			return now, err
		}
		state, err := s.c.ReadSession(ctx, s.id)
		if errors.Is(err, lockapi.CodeSessionNotFound) {
			return nil, s.expire()
		}
		if err != nil {
			return nil, err
		}
		if next := s.readopt(ctx, cl, &state); next != nil {
			return next, nil
		}
	}
}

// newest is the claim's present Held if it is good, or why there can be none;
// nil and nil where the hold may be resumed.
func (s *Session) newest(cl *claim) (*Held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	reason := context.Cause(cl.held.ctx)
	switch {
	case s.err != nil:
		return nil, s.err
	case errors.Is(reason, ErrUnlocked):
		return nil, ErrUnlocked
	case cl.phase != holding:
		return nil, ErrLockLost
	case reason == nil:
		return cl.held, nil
	}
	return nil, nil
}

// readopt gives the claim a new Held if the cell holds its grant and the
// session is safe still. A hold that the cell does not know of is lost.
func (s *Session) readopt(ctx context.Context, cl *claim, state *lockapi.SessionState) *Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	if cl.phase != holding || cl.held.ctx.Err() == nil {
		return nil
	}
	for _, one := range state.Holds {
		if one.Path != cl.path || one.Handle != cl.handle || one.Token != cl.token || s.state != Safe {
			continue
		}
		old := cl.held
		h := newHeld(ctx, s, cl)
		h.token, h.sequencer, h.grantedAt = old.token, old.sequencer, old.grantedAt
		cl.held = h
		return h
	}
	if s.state == Safe {
		s.lose(cl)
	}
	return nil
}
