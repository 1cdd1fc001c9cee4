package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/stoutlock/stout/client/internal/timing"
	"github.com/stoutlock/stout/lockapi"
)

// Lock acquires a lock. It waits in the lock's queue until the lock is granted,
// ctx ends, Wait is over, or the session ends. Among waiters of one Priority the
// queue is first come, first served. The position in it survives a change of
// master.
//
// ctx bounds the waiting only. Once the lock is held, the end of ctx ends
// neither the hold nor Held.Context; use Do for that.
//
// Lock never returns nil and nil. After an error no request remains: Lock has
// left the queue, and has released a grant that came in the meantime. If the
// cell could not be reached for that, the session does it in the background as
// soon as it can.
//
// Errors: the context's; ErrLockHeld after Wait, with the holders. ErrNoMaster
// if the cell could not be asked for the holders; also if it has granted the
// lock but not extended the session's lease (ErrJeopardy as well). ErrConflict
// for a limit that does not fit; ErrTooMany, at once, if a quota leaves no
// capacity for the grant or the queue position. ErrPermissionDenied, also if
// the right is revoked during the wait: that ends the waiting, while a hold
// stays until it is released. ErrInvalidArgument; ErrSessionExpired and
// ErrSessionClosed.
func (s *Session) Lock(ctx context.Context, path string, opts ...LockOption) (*Held, error) {
	return s.lock(ctx, path, makeLockOptions(opts))
}

// TryLock acquires a lock if it is available at once. Otherwise it returns
// ErrLockHeld, with the holders, or ErrLockDelayed. If the grant arrives while
// the session is in jeopardy, and that lasts for over a second, TryLock
// releases the grant and returns ErrJeopardy.
func (s *Session) TryLock(ctx context.Context, path string, opts ...LockOption) (*Held, error) {
	o := makeLockOptions(opts)
	o.hasWait, o.wait = true, 0
	return s.lock(ctx, path, o)
}

func (s *Session) lock(ctx context.Context, path string, o lockOptions) (*Held, error) {
	if err := lockapi.ValidatePath(path); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("stout: lock %s: %w", path, context.Cause(ctx))
	}
	a, err := s.newAcquisition(path, o)
	if err != nil {
		return nil, err
	}
	if err := (&lockapi.AcquireLock{Path: path, LockRequest: a.req}).Validate(); err != nil {
		a.forget()
		return nil, err
	}
	h, err := a.obtain(ctx)
	if err == nil {
		return h, nil
	}
	a.leave(ctx)
	return nil, a.explain(ctx, err)
}

// Do acquires a lock as Lock does, calls work while it is held, and releases
// it. The context of work ends when ctx or the hold does, whichever comes
// first; context.Cause returns the reason. It also ends when work returns. The
// lock is always released, even if work panics, and never before work has
// returned. Work that continues after its context has ended may overlap with
// the next holder.
//
// If the lock was not acquired, the error is Lock's. Otherwise it is the one
// that work returned, or Unlock's, or both joined. ErrLockLost,
// ErrSessionExpired or ErrSessionClosed mean that the lock was not held to the
// end.
func (s *Session) Do(ctx context.Context, path string, work func(context.Context, *Held) error, opts ...LockOption) (err error) {
	h, err := s.Lock(ctx, path, opts...)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // it panics, which must not wait for the cell
			cancelled, cancel := context.WithCancel(ctx)
			cancel()
			ctx = cancelled
		}
		err = both(err, h.Unlock(ctx))
	}()
	under, end := h.within(ctx)
	defer end()
	err = work(under, h)
	returned = true
	return err
}

// both returns the error that is not nil, unchanged, or joins two. It returns only one
// if that wraps the other.
func both(a, b error) error {
	switch {
	case b == nil, errors.Is(a, b):
		return a
	case a == nil, errors.Is(b, a):
		return b
	}
	return errors.Join(a, b)
}

// within returns a context that ends with ctx and with the hold.
func (h *Held) within(ctx context.Context) (_ context.Context, end func()) {
	ctx, cut, done := timing.Join(ctx, h.ctx)
	return &holdContext{Context: ctx, end: cut, h: h}, done
}
