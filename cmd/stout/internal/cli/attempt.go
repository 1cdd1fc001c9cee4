package cli

import (
	"context"
	"time"
)

// When an acquisition has given up, or its time is over, it takes lastWords for
// all that is left to do: to hear of an outcome that is on its way, for which
// it waits for lateOutcome; to find out why there is none, with which it begins
// after wonderAfter; and to tell the cell.
const (
	lastWords   = time.Second
	lateOutcome = 600 * time.Millisecond
	wonderAfter = 200 * time.Millisecond
)

// attempt is an attempt to obtain a lock that is under way. The client takes
// its time to leave nothing behind; nobody has to wait for that, since the end
// of the session ends the attempt, too.
type attempt struct {
	done chan struct{} // closed when it has ended, with the following
	held *heldLock
	err  error
}

// attempt begins an attempt, until ctx ends.
func (a *app) attempt(ctx context.Context, f lockFlags, w *waitWatch) *attempt {
	out := &attempt{done: make(chan struct{})}
	go func() {
		defer close(out.done)
		out.held, out.err = a.obtain(ctx, f, w)
	}()
	return out
}

// ended waits for the outcome until over or givenUp, and reports whether it is
// there.
func (t *attempt) ended(over <-chan time.Time, givenUp <-chan struct{}) bool {
	select {
	case <-t.done:
	case <-over:
	case <-givenUp:
	}
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// obtain opens a session and takes the lock with it.
func (a *app) obtain(ctx context.Context, f lockFlags, w *waitWatch) (*heldLock, error) {
	began := time.Now()
	session, err := a.open(ctx, f)
	if err != nil {
		return nil, err
	}
	w.over(session)
	h := &heldLock{session: session, flags: f}
	if h.Held, err = a.take(ctx, session, f, time.Since(began)); err != nil {
		return nil, err
	}
	h.watch = newGrantWatch(a.client, session.ID(), h.Sequencer(), f.ttl)
	return h, nil
}

// wonder finds out why an acquisition has had no outcome within the given time,
// as diagnose does. It begins when that is asked for, or a little later by
// itself, and ends with ctx.
func (a *app) wonder(ctx context.Context, within time.Duration) (why func() *failure) {
	asked, found := make(chan struct{}, 1), make(chan *failure, 1)
	go func() {
		select {
		case <-asked:
		case <-time.After(wonderAfter):
		case <-ctx.Done():
		}
		found <- a.diagnose(ctx, within)
	}()
	return func() *failure {
		asked <- struct{}{}
		return <-found
	}
}
