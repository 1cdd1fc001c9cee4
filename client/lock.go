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
	// errUnheard is errWaitOver where the cell has not answered the last call. It
	// becomes ErrLockHeld only where a read finds a holder.
	errUnheard = fmt.Errorf("%w, and the cell has not answered", errWaitOver)
	// errNotSafe is why Lock gives a grant back after Wait.
	errNotSafe = fmt.Errorf("%w: %w", lockapi.CodeNoMaster, ErrJeopardy)
)

// Lock takes a lock, waiting in its queue until it is granted, ctx ends, Wait
// is over, or the session ends. The place in the queue outlives a change of
// master. It is first come, first served.
//
// ctx bounds the waiting only. Once the lock is held, the end of ctx ends neither
// the hold nor Held.Context; Do is for who wants that.
//
// Lock never returns nil and nil. When it returns an error nothing is left
// behind: it has left the queue, and has released a grant that came meanwhile;
// where the cell could not be reached for that, the session does it in the
// background as soon as it can.
//
// Errors: the context's; ErrLockHeld after Wait, with the holders, or ErrNoMaster
// where the cell could not be asked who they are, or has granted the lock but not
// extended the session's lease (ErrJeopardy as well);
// ErrConflict for a limit that does not fit; ErrTooMany, at once, where a quota
// leaves no room for the grant or the place in the queue; ErrInvalidArgument;
// ErrSessionExpired and ErrSessionClosed.
func (s *Session) Lock(ctx context.Context, path string, opts ...LockOption) (*Held, error) {
	return s.acquire(ctx, path, makeLockOptions(opts))
}

// TryLock takes a lock if it is to be had at once. Otherwise it returns
// ErrLockHeld, with the holders, or ErrLockDelayed. A grant that came in a jeopardy
// of the session is given back if that is not over within a second (ErrJeopardy).
func (s *Session) TryLock(ctx context.Context, path string, opts ...LockOption) (*Held, error) {
	o := makeLockOptions(opts)
	o.hasWait, o.wait = true, 0
	return s.acquire(ctx, path, o)
}

func (s *Session) acquire(ctx context.Context, path string, o lockOptions) (*Held, error) {
	if err := lockapi.ValidatePath(path); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("stout: lock %s: %w", path, context.Cause(ctx))
	}
	cl, err := s.enter(path, o.mode)
	if err != nil {
		return nil, err
	}
	cl.req = o.request(s.id, cl.handle)
	if err := cl.req.Validate(); err != nil {
		s.forget(cl)
		return nil, err
	}
	h, err := s.obtain(ctx, cl, o)
	if err == nil {
		return h, nil
	}
	s.leave(ctx, cl)
	return nil, s.explain(ctx, path, o, err)
}

// obtain waits for a grant, and then until the session is safe, both within Wait.
func (s *Session) obtain(ctx context.Context, cl *claim, o lockOptions) (*Held, error) {
	if o.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.wait+waitSlack, errWaitOver)
		defer cancel()
	}
	grant, err := s.await(ctx, cl, &cl.req, o)
	if err != nil {
		return nil, err
	}
	if o.hasWait && o.wait <= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, waitSlack, errWaitOver)
		defer cancel()
	}
	h, err := s.hold(ctx, cl, &grant)
	if err != nil {
		cl.resting = false
	}
	return h, err
}

// await asks until the lock is granted, refused for good, or given up.
func (s *Session) await(ctx context.Context, cl *claim, req *lockapi.LockRequest, o lockOptions) (lockapi.Grant, error) {
	end := s.c.now() + o.wait
	over := errWaitOver
	for pause := (backoff{}); ; {
		wait := longPoll
		switch {
		case o.wait > 0:
			if wait = min(wait, end-s.c.now()); wait <= 0 {
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
		req.WaitMS = wait.Milliseconds()
		req.Queue = wait > 0
		asked := s.c.now()
		grant, err := s.ask(ctx, cl, req)
		over = errWaitOver
		switch {
		case errors.Is(err, errCut):
			over = errUnheard
			if err := s.Err(); err != nil {
				return grant, err
			}
		case errors.Is(err, lockapi.CodeSessionNotFound):
			return grant, s.expire()
		case err != nil:
			return grant, err
		case grant.State == lockapi.StateHeld:
			return grant, nil
		case s.c.now()-asked < wait:
			sleep(ctx, pause.next()) // whoever answers too soon is not asked in a loop
		default:
			pause.reset()
		}
	}
}

// ask makes one call for the lock, repeated until it is answered.
func (s *Session) ask(ctx context.Context, cl *claim, req *lockapi.LockRequest) (grant lockapi.Grant, err error) {
	under, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	if err := s.arm(cl, cut); err != nil {
		return grant, err
	}
	defer s.disarm(cl)
	q := call{
		method: http.MethodPut, path: lockapi.RouteLocks + cl.path, body: encode(req), out: &grant,
		wait: time.Duration(req.WaitMS) * time.Millisecond, cut: under,
		check: verifyGrant, want: cl.wanted(req),
	}
	settle := s.withdrawAtEnd(ctx, cl, cut)
	err = s.c.do(ctx, &q)
	settle()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx) // the withdrawal may have released what the answer grants
	}
	cl.unsettled = cl.unsettled || q.unsettled
	cl.resting = !cl.unsettled && leavesNothing(err)
	if errors.Is(err, lockapi.CodeLockHeld) && ctx.Err() != nil {
		err = context.Cause(ctx) // it was our own leaving of the queue that ended the call
	}
	return grant, err
}

// leavesNothing says whether an answer to a request for a lock means that neither
// a grant nor a place in the queue is left of it.
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
func (s *Session) withdrawAtEnd(ctx context.Context, cl *claim, cut context.CancelFunc) (settle func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	answered, finished := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(finished)
		defer cut()
		q := releaseCall(cl.path, s.id, cl.handle, 0)
		if cl.withdrawn = s.bounded(ctx, &q); cl.withdrawn != nil {
			return
		}
		late := time.NewTimer(lateAnswer)
		defer late.Stop()
		select {
		case <-answered:
		case <-late.C:
		}
	})
	return func() {
		if !stop() {
			close(answered)
			<-finished
		}
	}
}

// bounded makes a call of the cleaning up: ctx has ended, or may.
func (s *Session) bounded(ctx context.Context, q *call) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	return s.c.do(ctx, q)
}

// leave sees to it that nothing of a claim remains in the cell.
func (s *Session) leave(ctx context.Context, cl *claim) {
	if cl.resting || s.Err() != nil {
		s.forget(cl)
		return
	}
	if cl.withdrawn == nil { // else the cell could not be reached a moment ago
		q := releaseCall(cl.path, s.id, cl.handle, 0)
		err := s.bounded(ctx, &q)
		if err == nil || errors.Is(err, lockapi.CodeSessionNotFound) {
			s.forget(cl)
			return
		}
	}
	s.abandon(cl)
}

// explain turns the reason why Lock gave up into the error that it returns.
func (s *Session) explain(ctx context.Context, path string, o lockOptions, err error) error {
	var given *callError
	switch {
	case errors.As(err, &given) && given.last != nil:
		return err // the cell was not reached: whether the lock is held is not known
	case errors.Is(err, errWaitOver):
		return s.heldError(ctx, path, o.wait, given == nil && !errors.Is(err, errUnheard))
	case errors.Is(err, errNotSafe):
		return fmt.Errorf("stout: lock %s: granted, and given back: %w", path, err)
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return fmt.Errorf("stout: lock %s: %w", path, context.Cause(ctx))
	}
	return err
}

// heldError says who stood in the way of a wait that is over; where the cell has not
// been heard to say that somebody does, only if somebody does now.
func (s *Session) heldError(ctx context.Context, path string, wait time.Duration, heard bool) error {
	e := lockapi.Errorf(lockapi.CodeLockHeld, "%s was not granted within %s", path, wait)
	var lock lockapi.Lock
	q := call{method: http.MethodGet, path: lockapi.RouteLocks + path, out: &lock, check: verifyLock, want: wanted{path: path}}
	if err := s.bounded(ctx, &q); err != nil {
		return lockapi.Errorf(lockapi.CodeNoMaster, "%s was not granted within %s, and whether it is held is not known: %v", path, wait, err)
	}
	if !heard && len(lock.Holders) == 0 && lock.DelayRemainingMS == 0 {
		return lockapi.Errorf(lockapi.CodeNoMaster, "%s was not granted within %s, though nobody holds it: the cell did not answer in time", path, wait)
	}
	e.Holders, e.MoreHolders, e.DelayRemainingMS = lock.Holders, lock.MoreHolders, lock.DelayRemainingMS
	return e
}
