package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

const (
	// settleTime is how long Lock, when it gives up, tries to see its request
	// out of the cell before it leaves that to the background.
	settleTime = 2 * time.Second
	// waitSlack is how much later than Wait says the answer may come.
	waitSlack = time.Second
	// longestWait is a century: what is reckoned with it must not overflow.
	longestWait = 100 * 365 * 24 * time.Hour
)

var (
	// errWaitOver is why Lock gives up after Wait. It becomes ErrLockHeld.
	errWaitOver = errors.New("the wait is over")
	// errUnheard is errWaitOver where the cell has not answered the last call.
	// It becomes ErrLockHeld only where a read finds a holder.
	errUnheard = fmt.Errorf("%w, and the cell has not answered", errWaitOver)
	// errNotSafe is why Lock gives a grant back after Wait.
	errNotSafe = fmt.Errorf("%w: %w", lockapi.CodeNoMaster, ErrJeopardy)
)

// obtain waits for a grant, and then until the session is safe, both within
// Wait.
func (a *acquisition) obtain(ctx context.Context) (*Held, error) {
	o := &a.opts
	if o.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.wait+waitSlack, errWaitOver)
		defer cancel()
	}
	grant, err := a.askUntilGranted(ctx)
	if err != nil {
		return nil, err
	}
	if o.hasWait && o.wait <= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, waitSlack, errWaitOver)
		defer cancel()
	}
	h, err := a.hold(ctx, &grant)
	if err != nil {
		a.resting = false
	}
	return h, err
}

// askUntilGranted asks until the lock is granted, refused for good, or given
// up.
func (a *acquisition) askUntilGranted(ctx context.Context) (lockapi.Grant, error) {
	o, now := &a.opts, a.s.c.clock.now
	end := now() + o.wait
	over := errWaitOver
	for pause := (backoff{}); ; {
		wait := longPoll
		switch {
		case o.wait > 0:
			if wait = min(wait, end-now()); wait <= 0 {
				return lockapi.Grant{}, over
			}
		case o.hasWait:
			wait = 0
		}
		switch cause := context.Cause(ctx); {
		case cause == errWaitOver:
			return lockapi.Grant{}, over
		case ctx.Err() != nil:
			return lockapi.Grant{}, cause
		}
		a.req.WaitMS = wait.Milliseconds()
		a.req.Queue = wait > 0
		asked := now()
		grant, err := a.ask(ctx)
		over = errWaitOver
		switch {
		case errors.Is(err, errCut):
			over = errUnheard
			if err := a.s.Err(); err != nil {
				return grant, err
			}
		case errors.Is(err, lockapi.CodeSessionNotFound):
			return grant, a.s.expire()
		case err != nil:
			return grant, err
		case grant.State == lockapi.StateHeld:
			return grant, nil
		case now()-asked < wait:
			sleep(ctx, pause.next()) // whoever answers too soon is not asked in a loop
		default:
			pause.reset()
		}
	}
}

// ask makes one call for the lock, repeated until it is answered.
func (a *acquisition) ask(ctx context.Context) (grant lockapi.Grant, err error) {
	under, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	if err := a.arm(cut); err != nil {
		return grant, err
	}
	defer a.disarm()
	q := a.acquireCall(&a.req, &grant)
	q.wait, q.cut = time.Duration(a.req.WaitMS)*time.Millisecond, under
	if a.req.Queue {
		over := a.s.c.clock.now() + q.wait
		q.renew = func(q *call) {
			// A proxy may end each attempt before its time. The last one has to
			// be answered when the wait is over, and so asks for less.
			q.wait = min(q.wait, max(over-a.s.c.clock.now(), time.Millisecond))
			a.req.WaitMS = q.wait.Milliseconds()
			q.body = encode(&a.req)
		}
	}
	settle := a.withdrawAtEnd(ctx, cut)
	err = a.s.c.calls.do(ctx, &q)
	settle()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx) // the withdrawal may have released what the answer grants
	}
	a.unsettled = a.unsettled || q.unsettled
	a.resting = !a.unsettled && leavesNothing(err)
	if errors.Is(err, lockapi.CodeLockHeld) && ctx.Err() != nil {
		err = context.Cause(ctx) // it was our own leaving of the queue that ended the call
	}
	return grant, err
}

// acquireCall is the call that asks for the lock.
func (a *acquisition) acquireCall(req *lockapi.LockRequest, grant *lockapi.Grant) call {
	return call{
		method: http.MethodPut, path: lockapi.RouteLocks + a.path, body: encode(req), out: grant,
		check: verifyGrant, want: a.wanted(req), settles: seenThrough,
	}
}

// leavesNothing says whether an answer to a request for a lock means that
// neither a grant nor a position in the queue is left of it.
func leavesNothing(err error) bool {
	return errors.Is(err, lockapi.CodeLockHeld) || errors.Is(err, lockapi.CodeLockDelayed) ||
		errors.Is(err, lockapi.CodeTooMany) || errors.Is(err, lockapi.CodeSessionNotFound)
}

// withdrawAtEnd arranges that the queue is left as soon as ctx ends, while the
// call that waits in it is still under way: then that call is answered, and
// tells whether the grant or the leaving came first. Were the call cut off
// instead, the leaving could overtake it, and the grant come after.
//
// The function returned is to be called when the call has ended.
func (a *acquisition) withdrawAtEnd(ctx context.Context, cut context.CancelFunc) (settle func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	answered, finished := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(finished)
		defer cut()
		if a.withdrawn = a.withdraw(ctx); a.withdrawn == nil {
			ctx, cancel := context.WithTimeout(context.Background(), lateAnswer)
			defer cancel()
			_ = await(ctx, answered)
		}
	})
	return func() {
		close(answered)
		if !stop() {
			<-finished
		}
	}
}

// withdraw releases whatever the acquisition has in the cell.
func (a *acquisition) withdraw(ctx context.Context) error {
	q := releaseCall(a.path, a.s.id, a.handle, 0)
	return a.s.bounded(ctx, &q)
}

// bounded makes a call of the cleaning up: ctx has ended, or may.
func (s *Session) bounded(ctx context.Context, q *call) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	return s.c.calls.do(ctx, q)
}

// leave sees to it that nothing of the acquisition remains in the cell.
func (a *acquisition) leave(ctx context.Context) {
	if a.resting || a.s.Err() != nil {
		a.forget()
		return
	}
	if a.withdrawn == nil { // else the cell could not be reached a moment ago
		err := a.withdraw(ctx)
		if err == nil || errors.Is(err, lockapi.CodeSessionNotFound) {
			a.forget()
			return
		}
	}
	a.abandon()
}

// explain turns the reason why Lock gave up into the error that it returns.
func (a *acquisition) explain(ctx context.Context, err error) error {
	var given *callError
	switch {
	case errors.As(err, &given) && given.last != nil:
		return err // the cell was not reached: whether the lock is held is not known
	case errors.Is(err, errWaitOver):
		return a.heldError(ctx, given == nil && !errors.Is(err, errUnheard))
	case errors.Is(err, errNotSafe):
		return fmt.Errorf("stout: lock %s: granted, and given back: %w", a.path, err)
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return fmt.Errorf("stout: lock %s: %w", a.path, context.Cause(ctx))
	}
	return err
}

// heldError says who stood in the way of a wait that is over; where the cell
// has not been heard to say that somebody does, only if somebody does now.
func (a *acquisition) heldError(ctx context.Context, heard bool) error {
	path, wait := a.path, a.opts.wait
	e := lockapi.Errorf(lockapi.CodeLockHeld, "%s was not granted within %s", path, wait)
	var lock lockapi.Lock
	q := call{method: http.MethodGet, path: lockapi.RouteLocks + path, out: &lock, check: verifyLock, want: wanted{path: path}}
	if err := a.s.bounded(ctx, &q); err != nil {
		return lockapi.Errorf(lockapi.CodeNoMaster, "%s was not granted within %s, and whether it is held is not known: %v", path, wait, err)
	}
	if !heard && len(lock.Holders) == 0 && lock.DelayRemainingMS == 0 {
		return lockapi.Errorf(lockapi.CodeNoMaster, "%s was not granted within %s, though nobody holds it: the cell did not answer in time", path, wait)
	}
	e.Holders, e.MoreHolders, e.DelayRemainingMS = lock.Holders, lock.MoreHolders, lock.DelayRemainingMS
	return e
}
