package recipe

import (
	"context"
	"errors"
	"time"

	"github.com/stoutlock/stout/client"
)

// closing is how long the end of something may take when its context is over.
const closing = 5 * time.Second

// openSession opens a session. One whose lease was over before its opening was
// answered, from a cell that was slow, is not the last.
func openSession(ctx context.Context, c *client.Client, opts []client.SessionOption) (*client.Session, error) {
	for {
		s, err := c.NewSession(ctx, opts...)
		if !errors.Is(err, client.ErrSessionExpired) || ctx.Err() != nil {
			return s, err
		}
		pause(ctx, again)
	}
}

// last is ctx for the last steps: it has its values, and a few seconds more.
func last(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), closing)
}

// outlast is a context that ends a few seconds after ctx: for what is to be
// tried for as long as there is time.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(closing, cancel) })
	return longer, func() { stop(); cancel() }
}

// whileSafe is a context that ends with ctx, and as soon as the session cannot
// be relied upon: then what it owns may be somebody else's. context.Cause tells
// which.
func whileSafe(ctx context.Context, s *client.Session) (context.Context, context.CancelFunc) {
	ctx, cut := context.WithCancelCause(ctx)
	go func() {
		for {
			changed := s.Changed()
			switch s.State() {
			case client.Jeopardy:
				cut(client.ErrJeopardy)
			case client.Expired:
				cut(s.Err())
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cut(nil) }
}

// whileOpen is a context that ends with ctx, and when the session is over.
func whileOpen(ctx context.Context, s *client.Session) (context.Context, context.CancelFunc) {
	ctx, cut := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-s.Done():
			cut(s.Err())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cut(nil) }
}

// pause waits, or returns when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
