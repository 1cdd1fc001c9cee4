package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lockapi"
)

// Reasons why an acquisition gives up.
var (
	errWaitOver = errors.New("the time to wait is over")
	errSilence  = errors.New("no replica answers")
)

// After an acquisition has given up or its time is over, all the rest takes at
// most lastWords: waiting for an outcome on its way (lateOutcome), finding the
// cause (from diagnoseAfter on), and closing the session.
const (
	lastWords     = time.Second
	lateOutcome   = 600 * time.Millisecond
	diagnoseAfter = 200 * time.Millisecond
)

// endlessGrace keeps a waiting session alive for as long as its watch runs,
// even without a master. It does not affect a held lock, which ends with its
// lease.
const endlessGrace = 365 * 24 * time.Hour

// acquire opens a session and takes the lock, within the time that the flags
// allow for both, while replicas answer. If it fails, it leaves nothing behind
// as far as the cell can be reached. It returns at most lastWords after its
// time is over.
func (a *app) acquire(ctx context.Context, f lockFlags) (*heldLock, error) {
	asking, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	w := a.newWaitWatch(f)
	end := w.start(asking, giveUp)
	// The client takes time to clean up. The caller need not wait for that,
	// because the end of the session also ends the attempt.
	attempt := wait.Go(func() (*heldLock, error) { return a.obtain(asking, f, w) })
	out, known := outcome(attempt, f.over(a.opts.timeout), asking.Done())
	end()
	if known && out.Err == nil {
		return out.Value, nil
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	why := a.diagnoseLater(last, cmp.Or(f.bound(a.opts.timeout), a.opts.timeout))
	if !known {
		out, known = outcome(attempt, time.After(lateOutcome), nil)
	}
	err := cmp.Or(context.Cause(asking), errWaitOver)
	if known {
		err = out.Err
	}
	if err == nil {
		return out.Value, nil
	}
	var closing sync.WaitGroup
	closing.Go(func() { a.closeSession(last, w.session.Load()) })
	defer closing.Wait()
	if ctx.Err() != nil {
		return nil, err // a signal ended it; the reason is not needed
	}
	return nil, a.notAcquired(f, w, err, why)
}

// outcome waits for an attempt until over or givenUp, and reports whether it
// ended.
func outcome[T any](attempt <-chan T, over <-chan time.Time, givenUp <-chan struct{}) (out T, known bool) {
	select {
	case out = <-attempt:
		return out, true
	case <-over:
	case <-givenUp:
	}
	select {
	case out = <-attempt:
		return out, true
	default:
		return out, false
	}
}

// obtain opens a session and takes the lock in it.
func (a *app) obtain(ctx context.Context, f lockFlags, w *waitWatch) (*heldLock, error) {
	began := time.Now()
	session, err := a.open(ctx, f)
	if err != nil {
		return nil, err
	}
	w.setSession(session)
	h := &heldLock{session: session, flags: f}
	if h.Held, err = a.acquireIn(ctx, session, f, time.Since(began)); err != nil {
		return nil, err
	}
	return h, nil
}

// diagnoseLater starts diagnose in the background. It begins when why is
// called, or after diagnoseAfter, and ends with ctx.
func (a *app) diagnoseLater(ctx context.Context, within time.Duration) (why func() *failure) {
	asked, found := make(chan struct{}, 1), make(chan *failure, 1)
	go func() {
		select {
		case <-asked:
		case <-time.After(diagnoseAfter):
		case <-ctx.Done():
		}
		found <- a.diagnose(ctx, within)
	}()
	return func() *failure {
		asked <- struct{}{}
		return <-found
	}
}

// open opens the session.
func (a *app) open(ctx context.Context, f lockFlags) (*client.Session, error) {
	if within := f.bound(a.opts.timeout); within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, within, errWaitOver)
		defer cancel()
	}
	return a.client.NewSession(ctx, client.TTL(f.ttl), client.Name(f.name), client.Meta(sessionMeta(f)))
}

// acquireIn takes the lock in a session, with the given part of the time used
// up.
func (a *app) acquireIn(ctx context.Context, session *client.Session, f lockFlags, used time.Duration) (*client.Held, error) {
	opts := f.options()
	left := max(f.bound(a.opts.timeout)-used, time.Millisecond)
	switch {
	case f.try:
		ctx, cancel := context.WithTimeoutCause(ctx, left, errWaitOver)
		defer cancel()
		return session.TryLock(ctx, f.path, opts...)
	case f.waits:
		opts = append(opts, client.Wait(left))
	}
	return session.Lock(ctx, f.path, opts...)
}

// sessionMeta shows operators which process this is.
func sessionMeta(f lockFlags) map[string]string {
	meta := map[string]string{"pid": strconv.Itoa(os.Getpid())}
	if len(f.command) > 0 {
		meta["command"] = f.command[0]
	}
	return meta
}

// inTheWay describes what blocks a lock: its holders, with more that are not
// listed, or its lock-delay.
func inTheWay(path string, holders []lockapi.Holder, more int, delayMS int64) string {
	switch {
	case len(holders) == 1:
		h := holders[0]
		return fmt.Sprintf("%s is held by %s, token %d, for %s", clean(path), clean(h.SessionName), h.Token, since(h.GrantedAt))
	case len(holders) > 1:
		return fmt.Sprintf("%s has %d holders", clean(path), len(holders)+more)
	case delayMS > 0:
		return fmt.Sprintf("%s is free but in its lock-delay for %s more", clean(path), millis(delayMS))
	default:
		return fmt.Sprintf("%s is taken", clean(path))
	}
}

// notAcquired maps a failed acquisition to an exit code: one for a lock that
// another session holds, and another if the cell could not grant it. why finds
// the reason if the cell gave none.
func (a *app) notAcquired(f lockFlags, w *waitWatch, err error, why func() *failure) error {
	var out *failure
	refused, _ := errors.AsType[*lockapi.Error](err)
	switch {
	case refused != nil && (refused.Code == lockapi.CodeLockHeld || refused.Code == lockapi.CodeLockDelayed):
		out = &failure{code: f.conflictCode, expected: true, message: "lock not acquired: " + inTheWay(f.path, refused.Holders, refused.MoreHolders, refused.DelayRemainingMS)}
		if f.waits {
			out.hint("wait longer with --wait; stout locks %s shows its holders and waiters", clean(f.path))
		}
		return out
	case errors.Is(err, errSilence):
		out = a.unreachable(w.failed, a.opts.timeout)
	case errors.Is(err, client.ErrSessionExpired), errors.Is(err, client.ErrSessionNotFound):
		out = &failure{code: exitUnavailable, message: "the session ended while waiting (closed or expired)"}
	case noOutcome(err):
		out = why()
	default:
		out = a.explain(err)
	}
	out.message = "lock not acquired: " + out.message
	if out.code == exitNoMaster || out.code == exitUnreachable || out.code == exitUnavailable || couldNot(err) {
		out.code = f.unavailableCode
	}
	return out
}

// noOutcome reports whether a call was given up before the cell settled it.
func noOutcome(err error) bool {
	return errors.Is(err, errWaitOver) || errors.Is(err, client.ErrOutcomeUnknown) ||
		errors.Is(err, client.ErrNoMaster) || errors.Is(err, context.DeadlineExceeded)
}

// couldNot reports whether a call failed because of the cell: a quota is used
// up, or the cell has an internal error.
func couldNot(err error) bool {
	return errors.Is(err, client.ErrTooMany) || errors.Is(err, client.ErrInternal)
}
