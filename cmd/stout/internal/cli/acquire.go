package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Why an acquisition gives up by itself.
var (
	errWaitOver = errors.New("the time for it is over")
	errSilence  = errors.New("no replica answers")
)

// endlessGrace has a session that waits go on for as long as the vigil over it
// does, however long the cell is without a master: no session ends meanwhile. It
// is of no account to a lock that is held, whose end is that of the lease.
const endlessGrace = 365 * 24 * time.Hour

// acquire opens a session and takes the lock with it, in as much time as the
// flags allow for both, and for no longer than replicas answer. Where it fails it
// leaves nothing behind.
func (a *app) acquire(ctx context.Context, f lockFlags) (*tenure, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	v := a.newVigil(f)
	end := v.keep(ctx, giveUp)
	t, err := a.obtain(ctx, f, v)
	end()
	if err == nil {
		return t, nil
	}
	busy := errors.Is(err, client.ErrLockHeld) || errors.Is(err, client.ErrLockDelayed)
	if t != nil {
		a.closeSession(t.session, busy)
	}
	return nil, a.notGot(f, v, err)
}

// obtain is acquire without its end: on failure it returns the session that it
// opened, if it did.
func (a *app) obtain(ctx context.Context, f lockFlags, v *vigil) (*tenure, error) {
	began := time.Now()
	session, err := a.open(ctx, f)
	if err != nil {
		return nil, err
	}
	v.over(session)
	t := &tenure{session: session, flags: f}
	if t.Held, err = a.take(ctx, session, f, time.Since(began)); err != nil {
		return t, err
	}
	t.lookout = newLookout(a.client, session.ID(), t.Sequencer(), f.ttl)
	return t, nil
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

// take takes the lock, when the given part of the time is used up.
func (a *app) take(ctx context.Context, session *client.Session, f lockFlags, used time.Duration) (*client.Held, error) {
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
// that somebody else has, and another for a cell that could not give it.
func (a *app) notGot(f lockFlags, v *vigil, err error) error {
	var refused *lockapi.Error
	var out *failure
	switch {
	case errors.As(err, &refused) && (refused.Code == lockapi.CodeLockHeld || refused.Code == lockapi.CodeLockDelayed):
		out = &failure{code: f.conflictCode, expected: true, message: "not got: " + inTheWay(f.path, refused.Holders, refused.MoreHolders, refused.DelayRemainingMS)}
		if f.waits {
			out.hint("a longer --wait waits for it; stout locks %s shows who has it and who waits", clean(f.path))
		}
		return out
	case errors.Is(err, errSilence):
		out = a.unreachable(v.failed, a.opts.timeout)
	case errors.Is(err, client.ErrSessionExpired), errors.Is(err, client.ErrSessionNotFound):
		out = &failure{code: exitUnavailable, message: "our session ended while waiting (closed or expired)"}
	case errors.Is(err, errWaitOver):
		out = a.diagnose(f.bound(a.opts.timeout))
	default:
		out = a.explain(err)
	}
	out.message = "not got: " + out.message
	if out.code == exitNoMaster || out.code == exitUnreachable || out.code == exitUnavailable || couldNot(err) {
		out.code = f.unavailableCode
	}
	return out
}

// couldNot says whether a call failed for the cell's sake: a quota is used up, its
// master changed, or it is broken.
func couldNot(err error) bool {
	return errors.Is(err, client.ErrTooMany) || errors.Is(err, client.ErrOutcomeUnknown) || errors.Is(err, client.ErrInternal)
}
