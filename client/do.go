package client

import (
	"context"
	"errors"

	"github.com/stoutlock/stout/client/internal/timing"
)

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

// both returns the error that is not nil, unchanged, or joins two.
func both(a, b error) error {
	switch {
	case b == nil:
		return a
	case a == nil:
		return b
	}
	return errors.Join(a, b)
}

// within returns a context that ends with ctx and with the hold.
func (h *Held) within(ctx context.Context) (_ context.Context, end func()) {
	ctx, cut, done := timing.Join(ctx, h.ctx)
	return &guarded{Context: ctx, end: cut, h: h}, done
}
