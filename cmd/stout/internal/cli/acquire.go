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

// Why an acquisition gives up by itself.
var (
	errWaitOver = errors.New("the time for it is over")
	errSilence  = errors.New("no replica answers")
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

// endlessGrace has a session that waits go on for as long as the watch over it
// does, however long the cell is without a master: no session ends meanwhile.
// It does not matter for a lock that is held, whose end is that of the lease.
const endlessGrace = 365 * 24 * time.Hour

// acquire opens a session and takes the lock with it, in as much time as the
// flags allow for both, and for no longer than replicas answer. Where it fails
// it leaves nothing behind, as far as the cell can be told. It returns
// lastWords after its time is over, at the latest.
func (a *app) acquire(ctx context.Context, f lockFlags) (*heldLock, error) {
	asking, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	w := a.newWaitWatch(f)
	end := w.keep(asking, giveUp)
	// The client takes its time to leave nothing behind. The caller need not wait for
	// that, since the end of the session ends the attempt, too.
	attempt := wait.Go(func() (*heldLock, error) { return a.obtain(asking, f, w) })
	out, known := outcome(attempt, f.over(a.opts.timeout), asking.Done())
	end()
	if known && out.Err == nil {
		return out.Value, nil
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	why := a.wonder(last, cmp.Or(f.bound(a.opts.timeout), a.opts.timeout))
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
		return nil, err // a signal ended it, and nobody asks why
	}
	return nil, a.notGot(f, w, err, why)
}

// outcome waits for an attempt until over or givenUp, and reports whether it has ended.
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

// obtain opens a session and takes the lock with it.
func (a *app) obtain(ctx context.Context, f lockFlags, w *waitWatch) (*heldLock, error) {
	began := time.Now()
	session, err := a.open(ctx, f)
	if err != nil {
		return nil, err
	}
	w.over(session)
	h := &heldLock{session: session, flags: f}
	if h.Held, err = a.acquireIn(ctx, session, f, time.Since(began)); err != nil {
		return nil, err
	}
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

// open opens the session.
func (a *app) open(ctx context.Context, f lockFlags) (*client.Session, error) {
	if within := f.bound(a.opts.timeout); within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, within, errWaitOver)
		defer cancel()
	}
	return a.client.NewSession(ctx, client.WithTTL(f.ttl), client.WithName(f.name), client.WithMeta(sessionMeta(f)))
}

// acquireIn takes the lock in a session, when the given part of the time is used up.
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

// sessionMeta tells operators which process this is.
func sessionMeta(f lockFlags) map[string]string {
	meta := map[string]string{"pid": strconv.Itoa(os.Getpid())}
	if len(f.command) > 0 {
		meta["command"] = f.command[0]
	}
	return meta
}

// inTheWay says who or what keeps us from a lock: its holders, of whom more are
// not named, or its lock-delay.
func inTheWay(path string, holders []lockapi.Holder, more int, delayMS int64) string {
	switch {
	case len(holders) == 1:
		h := holders[0]
		return fmt.Sprintf("%s is held by %s, token %d, for %s", clean(path), clean(h.SessionName), h.Token, since(h.GrantedAt))
	case len(holders) > 1:
		return fmt.Sprintf("%s is held by %d", clean(path), len(holders)+more)
	case delayMS > 0:
		return fmt.Sprintf("%s is free, but in its lock-delay for %s more", clean(path), millis(delayMS))
	default:
		return fmt.Sprintf("%s is taken", clean(path))
	}
}

// notGot maps the reasons for not having the lock to exit codes: one for a lock
// that somebody else has, and another for a cell that could not give it. Where
// the cell has not said why, why finds it out.
func (a *app) notGot(f lockFlags, w *waitWatch, err error, why func() *failure) error {
	var out *failure
	refused, _ := errors.AsType[*lockapi.Error](err)
	switch {
	case refused != nil && (refused.Code == lockapi.CodeLockHeld || refused.Code == lockapi.CodeLockDelayed):
		out = &failure{code: f.conflictCode, expected: true, message: "not got: " + inTheWay(f.path, refused.Holders, refused.MoreHolders, refused.DelayRemainingMS)}
		if f.waits {
			out.hint("a longer --wait waits for it; stout locks %s shows who has it and who waits", clean(f.path))
		}
		return out
	case errors.Is(err, errSilence):
		out = a.unreachable(w.failed, a.opts.timeout)
	case errors.Is(err, client.ErrSessionExpired), errors.Is(err, client.ErrSessionNotFound):
		out = &failure{code: exitUnavailable, message: "our session ended while waiting (closed or expired)"}
	case noOutcome(err):
		out = why()
	default:
		out = a.explain(err)
	}
	out.message = "not got: " + out.message
	if out.code == exitNoMaster || out.code == exitUnreachable || out.code == exitUnavailable || couldNot(err) {
		out.code = f.unavailableCode
	}
	return out
}

// noOutcome says whether a call was given up before the cell had settled it.
func noOutcome(err error) bool {
	return errors.Is(err, errWaitOver) || errors.Is(err, client.ErrOutcomeUnknown) ||
		errors.Is(err, client.ErrNoMaster) || errors.Is(err, context.DeadlineExceeded)
}

// couldNot says whether a call failed because of the cell: a quota is used up,
// or the cell is not working.
func couldNot(err error) bool {
	return errors.Is(err, client.ErrTooMany) || errors.Is(err, client.ErrInternal)
}
