// Package session opens the sessions of adapters: a library calls an adapter for
// as long as the program runs, and a session may end before.
package session

import (
	"context"

	"github.com/stoutlock/stout/client"
)

// Opener opens a session when it is first needed, and another one when that is
// over. It is safe for concurrent use.
type Opener struct {
	c    *client.Client
	opts []client.SessionOption
	now  chan *client.Session // has the present session, or nil
}

// New returns an opener of sessions with these options.
func New(c *client.Client, opts ...client.SessionOption) *Opener {
	o := &Opener{c: c, opts: opts, now: make(chan *client.Session, 1)}
	o.now <- nil
	return o
}

// Session returns a session that is not over.
func (o *Opener) Session(ctx context.Context) (s *client.Session, err error) {
	select {
	case s = <-o.now:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { o.now <- s }()
	if s != nil && s.Err() == nil {
		return s, nil
	}
	s, err = o.c.NewSession(ctx, o.opts...)
	return s, err
}

// Close closes the present session. A further call of Session opens another.
func (o *Opener) Close(ctx context.Context) error {
	var s *client.Session
	select {
	case s = <-o.now:
	case <-ctx.Done(): // another goroutine still opens one
		return context.Cause(ctx)
	}
	o.now <- nil
	if s == nil {
		return nil
	}
	return s.Close(ctx)
}
