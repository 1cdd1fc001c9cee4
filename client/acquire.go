package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/client/internal/timing"
	"github.com/stoutlock/stout/lockapi"
)

const (
	// settleTime bounds how long Lock, when it gives up, tries to withdraw its
	// request before it leaves that to the background.
	settleTime = 2 * time.Second
	// waitSlack is how long after Wait the answer may still come.
	waitSlack = time.Second
	// longestWait is a century: calculations with it must not overflow.
	longestWait = 100 * 365 * 24 * time.Hour
)

var (
	// errWaitOver ends Lock after Wait. It becomes ErrLockHeld.
	errWaitOver = errors.New("the wait is over")
	// errUnheard is errWaitOver when the cell has not answered the last call. It
	// becomes ErrLockHeld only if a read finds a holder.
	errUnheard = fmt.Errorf("%w, and the cell has not answered", errWaitOver)
	// errNotSafe is why Lock releases a grant: the session was not safe when
	// Wait was over.
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

// askUntilGranted repeats the request until the lock is granted or finally
// refused, or until Lock gives up.
func (a *acquisition) askUntilGranted(ctx context.Context) (lockapi.Grant, error) {
	o, now := &a.opts, a.s.c.clock.now
	end := now() + o.wait
	over := errWaitOver
	for pause := (timing.Backoff{}); ; {
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
		case errors.Is(err, call.ErrCut):
			over = errUnheard
			if err := a.s.Err(); err != nil {
				return grant, err
			}
		case errors.Is(err, lockapi.CodeConflict) && a.inPart(ctx):
			timing.Sleep(ctx, pause.Next())
		case err != nil:
			return grant, err
		case grant.State == lockapi.StateHeld:
			return grant, nil
		case now()-asked < wait:
			timing.Sleep(ctx, pause.Next()) // the answer came too soon: do not repeat without a pause
		default:
			pause.Reset(0)
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
	q.Wait, q.Cut = time.Duration(a.req.WaitMS)*time.Millisecond, under
	if a.req.Queue {
		over := a.s.c.clock.now() + q.Wait
		q.Renew = func(q *call.Call) {
			// A proxy may end each attempt early. The last attempt must be
			// answered when the wait is over, so it requests a shorter wait.
			q.Wait = min(q.Wait, max(over-a.s.c.clock.now(), time.Millisecond))
			a.req.WaitMS = q.Wait.Milliseconds()
			q.Body = call.Encode(&a.req)
		}
	}
	settle := a.withdrawAtEnd(ctx, cut)
	err = a.s.c.calls.Do(ctx, &q)
	settle()
	a.unsettled = a.unsettled || q.Unanswered
	a.resting = !a.unsettled && leavesNothing(err)
	switch {
	case isNoSession(err):
		err = a.s.expire()
	case ctx.Err() != nil && call.IsAnswer(err) && (err == nil || errors.Is(err, lockapi.CodeLockHeld)):
		err = context.Cause(ctx) // the withdrawal may have released what the answer grants, or ended the call
	}
	return grant, err
}

// acquireCall returns the call that requests the lock.
func (a *acquisition) acquireCall(req *lockapi.LockRequest, grant *lockapi.Grant) call.Call {
	return call.Call{
		Method: http.MethodPut, Path: lockapi.RouteLocks + a.path, Body: call.Encode(req), Out: grant,
		Check: verifyGrant, Required: a.wanted(req), Settles: call.AnyRefusal,
	}
}

// leavesNothing reports whether an answer to a lock request means that it left
// neither a grant nor a queue position.
func leavesNothing(err error) bool {
	return call.IsAnswer(err) && (errors.Is(err, lockapi.CodeLockHeld) || errors.Is(err, lockapi.CodeLockDelayed) ||
		errors.Is(err, lockapi.CodeTooMany) || errors.Is(err, lockapi.CodeSessionNotFound))
}

// withdrawAtEnd makes the acquisition leave the queue as soon as ctx ends,
// while the waiting call is still under way. The answer to that call then shows
// whether the grant or the withdrawal came first. If the call were cut off
// instead, the withdrawal could overtake it, and the grant come later.
//
// The caller must call settle when the call has ended.
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
			_ = timing.Await(ctx, answered)
		}
	})
	return func() {
		close(answered)
		if !stop() {
			<-finished
		}
	}
}

// inPart handles the conflict of a repeated request for several locks: the
// answer that granted them was lost, and one has been released by another caller
// since. It gives the others back, so that the request can begin anew. That
// needs a fresh handle: a late copy of a release here names no token, and would
// release the next grant.
func (a *acquisition) inPart(ctx context.Context) bool {
	if len(a.with) == 0 || a.anew {
		return false
	}
	a.anew = true
	if a.withdraw(ctx) != nil {
		return false
	}
	_ = a.s.locks.enter(a) // if the session is over, so is the next request
	a.req.Handle = a.handle
	a.s.reconciler.expectOrphans()
	return true
}

// withdraw releases the acquisition's grant or queue position, of all locks.
func (a *acquisition) withdraw(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	a.each(func(path string, _ uint64) {
		if err == nil {
			q := releaseCall(path, a.s.id, a.handle, 0)
			err = a.s.c.calls.Do(ctx, &q)
		}
	})
	return err
}

// leave removes the acquisition from the cell.
func (a *acquisition) leave(ctx context.Context) {
	if a.resting || a.s.Err() != nil {
		a.forget()
		return
	}
	if a.withdrawn == nil { // else the cell could not be reached a moment ago
		err := a.withdraw(ctx)
		if err == nil || isNoSession(err) {
			a.forget()
			return
		}
	}
	a.abandon()
}

// explain converts the reason why Lock gave up into the error that it returns.
func (a *acquisition) explain(ctx context.Context, err error) error {
	var given *call.CallError
	switch {
	case errors.As(err, &given) && given.Last != nil:
		return err // the cell was not reached, so it is unknown whether the lock is held
	case errors.Is(err, errWaitOver):
		return a.heldError(ctx, given == nil && !errors.Is(err, errUnheard))
	case errors.Is(err, errNotSafe):
		return fmt.Errorf("stout: lock %s: granted, and given back: %w", a.path, err)
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return fmt.Errorf("stout: lock %s: %w", a.path, context.Cause(ctx))
	}
	return err
}

// heldError returns the error of an expired wait, with the present holders.
// answered is false if the cell had not answered the last call: then it reports
// ErrLockHeld only if a read finds a holder or a delay.
func (a *acquisition) heldError(ctx context.Context, answered bool) error {
	path, wait := a.path, a.opts.wait
	lock, err := a.s.look(ctx, path)
	for i := range a.with {
		if err == nil && len(lock.Holders) == 0 && lock.DelayRemainingMS == 0 {
			path = a.with[i].path
			lock, err = a.s.look(ctx, path)
		}
	}
	if err != nil {
		return lockapi.Errorf(lockapi.CodeNoMaster, "%s was not granted within %s, and it is unknown whether it is held: %v", path, wait, err)
	}
	if !answered && len(lock.Holders) == 0 && lock.DelayRemainingMS == 0 {
		return lockapi.Errorf(lockapi.CodeNoMaster, "%s was not granted within %s, though it is free: the cell did not answer in time", path, wait)
	}
	e := lockapi.Errorf(lockapi.CodeLockHeld, "%s was not granted within %s", path, wait)
	if len(lock.Holders) > 0 {
		e.Detail += ": it is " + lockapi.HeldBy(lock.Holders, lock.MoreHolders)
	}
	e.Holders, e.MoreHolders, e.DelayRemainingMS = lock.Holders, lock.MoreHolders, lock.DelayRemainingMS
	return e
}

// look reads a lock within settleTime, even if ctx has ended.
func (s *Session) look(ctx context.Context, path string) (lock lockapi.Lock, err error) {
	q := call.Call{Method: http.MethodGet, Path: lockapi.RouteLocks + path, Out: &lock, Check: verifyLock, Required: call.Required{Path: path}}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	return lock, s.c.calls.Do(ctx, &q)
}
