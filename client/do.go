package client

import (
	"context"
	"errors"
)

// Do takes a lock as Lock does, calls work while it is held, and releases it.
// The context that work gets ends when ctx does and when the hold does,
// whichever comes first; context.Cause tells which. It ends, too, when work
// returns. The lock is released in any case, also where work panics, and not
// before work has returned: work that goes on after its context has ended may
// go on beside the next holder.
//
// The error is that of Lock, where the lock was not got; else the very one that
// work returned, or that of Unlock, or both joined: ErrLockLost,
// ErrSessionExpired or ErrSessionClosed say that the lock was not held to the
// end.
func (s *Session) Do(ctx context.Context, path string, work func(context.Context, *Held) error, opts ...LockOption) (err error) {
	h, err := s.Lock(ctx, path, opts...)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // it panics: that is not to wait until a cell is back
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

// both is one error or the other as it is, and joins two.
func both(a, b error) error {
	switch {
	case b == nil:
		return a
	case a == nil:
		return b
	}
	return errors.Join(a, b)
}

// within is a context that ends with ctx and with the hold.
func (h *Held) within(ctx context.Context) (_ context.Context, end func()) {
	ctx, cut, done := join(ctx, h.ctx)
	return &guarded{Context: ctx, end: cut, h: h}, done
}
