package client

import (
	"context"
	"fmt"

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
