package client

import (
	"context"
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
	view      guarded // of ctx; Context returns it
}

// newHeld makes a hold with the values of ctx, but not its end.
func newHeld(ctx context.Context, a *acquisition) *Held {
	h := &Held{a: a}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	h.view = guarded{Context: h.ctx, end: h.cancel, h: h}
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

// Sequencers returns the sequencers of all locks: of Path first, then of those
// in With.
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
