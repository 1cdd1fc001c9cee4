package client

import (
	"context"
	"errors"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Held is one hold of a lock. It is safe for concurrent use.
//
// A Held is good until Done is closed. It then stays done, even when the
// session becomes safe again; Resume returns a new Held for the same grant.
// Always call Unlock, unless the session is to end with the program.
type Held struct {
	a         *acquisition
	token     uint64
	sequencer string
	grantedAt time.Time
	ctx       context.Context // its cancellation is the end of the hold
	cancel    context.CancelCauseFunc
	view      holdContext // of ctx; Context returns it
}

// newHeld makes a hold with the values of ctx, but not its end.
func newHeld(ctx context.Context, a *acquisition) *Held {
	h := &Held{a: a}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	h.view = holdContext{Context: h.ctx, end: h.cancel, h: h}
	return h
}

// Path returns the lock's path.
func (h *Held) Path() string { return h.a.path }

// Mode returns lockapi.Exclusive or lockapi.Shared.
func (h *Held) Mode() lockapi.Mode { return h.a.opts.mode }

// Token returns the fencing token of Path: higher than that of every earlier grant in
// the cell. Send it with every request to the protected resource.
func (h *Held) Token() uint64 { return h.token }

// Sequencer returns a description of the grant that others can check:
// mode:token:path.
func (h *Held) Sequencer() string { return h.sequencer }

// Sequencers returns the sequencers of all locks: of Path first, then of the
// locks in With.
func (h *Held) Sequencers() []string {
	h.a.s.locks.mu.Lock()
	defer h.a.s.locks.mu.Unlock()
	all := []string{h.sequencer}
	for i := range h.a.with {
		all = append(all, h.a.with[i].sequencer)
	}
	return all
}

// Handle returns the name of this hold within its session.
func (h *Held) Handle() string { return h.a.handle }

// GrantedAt returns when the lock was granted, on the master's wall clock.
func (h *Held) GrantedAt() time.Time { return h.grantedAt }

// Context returns a context that ends when the hold can no longer be relied
// upon: at the end of the local lease, which is before another session can get
// the lock; when the lock is lost or the session is over; or on Unlock. Do the
// work that the lock protects under it. context.Cause returns the reason, as
// Err does.
//
// It has the values of the context given to Lock, but does not end with it: see
// Session.Do for a context that ends with both.
func (h *Held) Context() context.Context { return &h.view }

// Done returns a channel that is closed when Context ends.
func (h *Held) Done() <-chan struct{} { return h.view.Done() }

// Err returns nil until Done is closed, and then ErrJeopardy, ErrLockLost,
// ErrSessionExpired, ErrSessionClosed or ErrUnlocked, whichever came first.
func (h *Held) Err() error {
	_ = h.a.s.Err() // reads the clock, which may end the hold
	return context.Cause(h.ctx)
}

// Remaining returns how long the hold can be relied upon unless the session's
// lease is extended, and 0 once Done is closed.
func (h *Held) Remaining() time.Duration {
	left := h.a.s.Remaining()
	if h.view.Err() != nil {
		return 0
	}
	return left
}

// ValidUntil returns Session.ValidUntil.
func (h *Held) ValidUntil() time.Time { return h.a.s.ValidUntil() }

// holdContext is a context that ends with a hold at the latest. Its methods read
// the clock instead of waiting for a timer: after the machine has slept for
// longer than the lease, a worker may be awake before the timers have run.
//
// Its methods do not take the lease's mutex, under which the session reports to
// Metrics: the caller may hold a lock that its Metrics take.
type holdContext struct {
	context.Context // ended by end
	end             context.CancelCauseFunc
	h               *Held
}

// look ends the context if the hold has ended.
func (g *holdContext) look() {
	if g.Context.Err() == nil {
		if reason := g.h.over(); reason != nil {
			g.end(reason)
		}
	}
}

func (g *holdContext) Err() error {
	g.look()
	return g.Context.Err()
}

func (g *holdContext) Done() <-chan struct{} {
	g.look()
	return g.Context.Done()
}

// over returns why the hold can no longer be relied upon, or nil. If the lease
// has ended, it ends the hold; the session changes its state when it is next
// read.
func (h *Held) over() error {
	now := h.a.s.c.clock.now() // first: the lease may be extended in between
	if now >= h.a.s.lease.end.get() {
		h.cancel(ErrJeopardy)
	}
	return context.Cause(h.ctx)
}

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
		within, cancel := context.WithTimeout(ctx, s.ttl) // without an answer the session is in jeopardy by then
		state, err := s.read(within)
		over := within.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case isNoSession(err):
			return nil, s.expire()
		case err != nil && over:
			continue
		case err != nil:
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
	if a.phase != holding || a.short || a.held.ctx.Err() == nil { // a lock may be lost since the state was read
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
