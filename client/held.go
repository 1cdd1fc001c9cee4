package client

import (
	"context"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Held is one hold of a lock. It is safe for concurrent use.
//
// A Held is good until Done is closed. It then stays done, also when the
// session becomes safe again; Resume then gives a new Held for the same grant.
// In any case call Unlock, unless the session is to end with the program.
type Held struct {
	a         *acquisition
	token     uint64
	sequencer string
	grantedAt time.Time
	ctx       context.Context // its cancellation is the end of the hold
	cancel    context.CancelCauseFunc
	view      guarded // of ctx, which is what Context hands out
}

// newHeld makes a hold that has the values of ctx, and not its end.
func newHeld(ctx context.Context, a *acquisition) *Held {
	h := &Held{a: a}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	h.view = guarded{Context: h.ctx, end: h.cancel, h: h}
	return h
}

// Path is the lock's path.
func (h *Held) Path() string { return h.a.path }

// Mode is lockapi.Exclusive or lockapi.Shared.
func (h *Held) Mode() lockapi.Mode { return h.a.opts.mode }

// Token is the fencing token: higher than that of every earlier grant in the
// cell. Send it along with every request to what the lock protects.
func (h *Held) Token() uint64 { return h.token }

// Sequencer describes the grant for others to check: mode:token:path.
func (h *Held) Sequencer() string { return h.sequencer }

// Handle is the name that this hold has within its session.
func (h *Held) Handle() string { return h.a.handle }

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
	_ = h.a.s.Err() // reads the clock, which may end the hold
	return context.Cause(h.ctx)
}

// Remaining is for how long the hold can still be relied upon unless the
// session's lease is extended, and 0 once Done is closed.
func (h *Held) Remaining() time.Duration {
	left := h.a.s.Remaining()
	if h.view.Err() != nil {
		return 0
	}
	return left
}

// ValidUntil is Session.ValidUntil.
func (h *Held) ValidUntil() time.Time { return h.a.s.ValidUntil() }
