package client

import (
	"context"
	"fmt"

	"github.com/stoutlock/stout/lockapi"
)

// Lock takes a lock, waiting in its queue until it is granted, ctx ends, Wait
// is over, or the session ends. The position in the queue outlives a change of
// master. It is first come, first served.
//
// ctx bounds the waiting only. Once the lock is held, the end of ctx ends
// neither the hold nor Held.Context; Do is for who wants that.
//
// Lock never returns nil and nil. When it returns an error nothing is left
// behind: it has left the queue, and has released a grant that came meanwhile;
// where the cell could not be reached for that, the session does it in the
// background as soon as it can.
//
// Errors: the context's; ErrLockHeld after Wait, with the holders, or
// ErrNoMaster where the cell could not be asked who they are, or has granted
// the lock but not extended the session's lease (ErrJeopardy as well);
// ErrConflict for a limit that does not fit; ErrTooMany, at once, where a quota
// leaves no room for the grant or the position in the queue;
// ErrPermissionDenied, also where the right is taken away meanwhile: that ends
// the waiting, while a hold stays until it is given up; ErrInvalidArgument; ErrSessionExpired and ErrSessionClosed.
func (s *Session) Lock(ctx context.Context, path string, opts ...LockOption) (*Held, error) {
	return s.lock(ctx, path, makeLockOptions(opts))
}

// TryLock takes a lock if it is to be had at once. Otherwise it returns
// ErrLockHeld, with the holders, or ErrLockDelayed. A grant that came in a
// jeopardy of the session is given back if that is not over within a second
// (ErrJeopardy).
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
	if err := a.req.Validate(); err != nil {
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
