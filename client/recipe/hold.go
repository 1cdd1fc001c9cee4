package recipe

import (
	"context"

	"github.com/stoutlock/stout/client"
)

// Hold holds the lock at path for as long as the program runs, and calls work
// while the lock is held. When the hold is lost, Hold waits for the lock again,
// with a new session if necessary, and calls work again. That includes an error
// of work because the lock was lost, such as a refused token. Hold ends when ctx
// ends, when work returns although the lock is held, or when the cell refuses,
// for example with client.ErrTooMany.
//
// The context of work ends with the hold and with ctx. Work must return then:
// Hold waits for it, and another holder may already be at work. Send held's
// token to the resources that work changes.
func Hold(ctx context.Context, c *client.Client, path string, work func(context.Context, *client.Held) error, opts ...client.SessionOption) error {
	return inSessions(ctx, c, opts, func(s *client.Session) (bool, error) {
		return doLocked(ctx, s, path, func(under context.Context, held *client.Held) (bool, error) {
			err := work(under, held)
			return ctx.Err() == nil && under.Err() != nil, err
		})
	})
}

// doLocked is Session.Do with a work that reports whether to repeat it. It is
// also repeated if the session ended before the lock was granted.
func doLocked(ctx context.Context, s *client.Session, path string, work func(context.Context, *client.Held) (again bool, err error)) (again bool, err error) {
	var held *client.Held
	undone := error(nil)
	err = s.Do(ctx, path, func(under context.Context, h *client.Held) (err error) {
		held = h
		again, undone = work(under, h)
		return undone
	})
	if held == nil {
		return failed(ctx, s, err)
	}
	if again || undone == nil || ctx.Err() != nil {
		return again, err
	}
	return isLoss(held.Unlock(ctx)), err // the outcome again; err may be about another lock
}
