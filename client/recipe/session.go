package recipe

import (
	"context"
	"errors"
	"time"

	"github.com/stoutlock/stout/client"
)

// closing bounds the final calls after a context has ended.
const closing = 5 * time.Second

// openSession opens a session. A slow cell may answer only after the session's
// lease has ended; then openSession tries again.
func openSession(ctx context.Context, c *client.Client, opts []client.SessionOption) (*client.Session, error) {
	for {
		s, err := c.NewSession(ctx, opts...)
		if !errors.Is(err, client.ErrSessionExpired) || ctx.Err() != nil {
			return s, err
		}
		pause(ctx, again)
	}
}

// inSessions opens a session, and calls term with it until again is false. If
// the session is over before, it opens another one. It closes the sessions.
func inSessions(ctx context.Context, c *client.Client, opts []client.SessionOption, term func(*client.Session) (again bool, err error)) error {
	for {
		s, err := openSession(ctx, c, opts)
		if err != nil {
			return err
		}
		if repeat, err := inSession(ctx, s, term); !repeat {
			return err
		}
	}
}

// inSession calls term with the session until again is false, or the session is
// over. It closes the session, also if term panics.
func inSession(ctx context.Context, s *client.Session, term func(*client.Session) (again bool, err error)) (again bool, err error) {
	defer func() {
		ending, cancel := last(ctx)
		defer cancel()
		_ = s.Close(ending) // if this fails, the session expires
	}()
	again = true
	for again && s.Err() == nil {
		again, err = term(s)
	}
	return again, err
}

// failed reports whether to try again after err: the session is over and ctx is
// not. If ctx has ended it returns its cause in place of err.
func failed(ctx context.Context, s *client.Session, err error) (again bool, _ error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return s.Err() != nil, err
}

// last returns a context with the values of ctx and a few seconds more, for the
// final calls.
func last(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), closing)
}

// outlast returns a context that ends a few seconds after ctx, for calls that
// use all the time there is.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(closing, cancel) })
	return longer, func() { stop(); cancel() }
}

// checkedContext is a context that also ends when over returns a reason. Its
// methods call over, which reads the clock, instead of waiting for a timer: after
// the machine has slept, a worker may be awake before the timers have run.
type checkedContext struct {
	context.Context // ended by end
	end             context.CancelCauseFunc
	over            func() error
}

func (g *checkedContext) look() {
	if g.Context.Err() == nil {
		if reason := g.over(); reason != nil {
			g.end(reason)
		}
	}
}

func (g *checkedContext) Err() error {
	g.look()
	return g.Context.Err()
}

func (g *checkedContext) Done() <-chan struct{} {
	g.look()
	return g.Context.Done()
}

// whileSafe returns a context that ends with ctx, and as soon as the session
// cannot be relied upon: its files and locks may then belong to another
// session. context.Cause returns the reason.
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
	return &checkedContext{ctx, cut, func() error {
		if s.Remaining() > 0 {
			return nil
		}
		return client.ErrJeopardy
	}}, func() { cut(nil) }
}

// whileOpen returns a context that ends with ctx, and when the session is over.
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

// pauseUntil waits until the wall clock shows a time, or ctx ends. It looks every
// minute: somebody may set the clock, and a timer does not count a machine's sleep.
func pauseUntil(ctx context.Context, end time.Time) {
	for ctx.Err() == nil {
		left := end.Sub(time.Now().Round(0))
		if left <= 0 {
			return
		}
		pause(ctx, min(left, time.Minute))
	}
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
