package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/client/internal/timing"
	"github.com/stoutlock/stout/lockapi"
)

// releaseTime is how long a release continues under a context that has ended.
const releaseTime = 5 * time.Second

// Unlock releases the lock. It ends Context first, so that the work stops
// before another holder can begin. Under a cancelled context it still works,
// for a few seconds. It may be called again, also by several goroutines: once
// it has an outcome, all calls return it.
//
// nil means that the lock is released, and was held until then, with one
// exception. If a call was lost or not answered in time, and a later one finds
// no hold to release, the lost one is assumed to have released it. It is then
// unknown whether the lock had been released before, for example by an operator.
// If that matters, call Client.CheckSequencer before Unlock.
//
// ErrLockLost, ErrSessionExpired and ErrSessionClosed mean that there was
// certainly no hold left to release. With any other error the cell could not be
// reached in time; the session then keeps trying to release the lock in the
// background.
func (h *Held) Unlock(ctx context.Context) error {
	a, r := h.a, &h.a.release
	end := time.Now().Add(releaseTime)
	if !r.begin(ctx) {
		return fmt.Errorf("stout: unlock %s: another call works on it: %w", a.path, ctx.Err())
	}
	defer func() { <-r.turn }()
	if r.settled {
		return r.outcome
	}
	for {
		if over := a.beginRelease(); over != nil {
			a.forget()
			return r.settle(over)
		}
		released, err := a.tryRelease(ctx, end)
		switch {
		case errors.Is(err, call.ErrCut):
			continue // there is a new master, or the session is over
		case err == nil && released:
			a.forget()
			return r.settle(nil)
		case err == nil:
			a.forget()
			return r.settle(ErrLockLost)
		case isNoSession(err):
			return r.settle(a.s.expire())
		}
		r.abandoned = true
		a.abandon()
		return fmt.Errorf("stout: unlock %s: %w", a.path, err)
	}
}

// begin waits for other calls of Unlock; false if ctx ends first.
func (r *release) begin(ctx context.Context) bool {
	select {
	case r.turn <- struct{}{}:
		return true
	default:
	}
	ctx, _, done := outlast(ctx, releaseTime)
	defer done()
	select {
	case r.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// settle records the outcome. It is the caller's turn.
func (r *release) settle(outcome error) error {
	r.settled, r.outcome = true, outcome
	return outcome
}

// beginRelease ends the hold here. It returns an error if there is no hold to
// release. It is the caller's turn.
func (a *acquisition) beginRelease() error {
	_ = a.s.lease.over() // reads the clock, which may end the hold for a reason of its own
	a.s.locks.mu.Lock()
	defer a.s.locks.mu.Unlock()
	a.held.cancel(ErrUnlocked)
	if a.s.locks.over != nil {
		return a.s.locks.over
	}
	if a.phase == gone && !a.release.abandoned {
		return ErrLockLost
	}
	a.phase = leaving
	a.s.locks.byHandle[a.handle] = a // again, after abandon
	return nil
}

// tryRelease makes one call for Unlock; if ctx has ended or ends early, it
// continues until end. It returns false if the cell found no hold, and no
// unanswered attempt, of this call or an earlier one, can be the reason. It is
// the caller's turn.
func (a *acquisition) tryRelease(ctx context.Context, end time.Time) (bool, error) {
	ctx, cut, done := outlast(ctx, time.Until(end))
	defer done()
	if a.arm(func() { cut(call.ErrCut) }) != nil {
		return false, call.ErrCut
	}
	defer a.disarm()
	r := &a.release
	for ; r.done <= len(a.with); r.done++ {
		path, token := a.path, a.token
		if r.done > 0 {
			path, token = a.with[r.done-1].path, a.with[r.done-1].token
		}
		if err := r.call(ctx, a, path, token); err != nil {
			return false, err
		}
	}
	return !r.missed, nil
}

// call releases the next lock of the acquisition.
func (r *release) call(ctx context.Context, a *acquisition, path string, token uint64) error {
	var answer lockapi.Released
	q := releaseCall(path, a.s.id, a.handle, token)
	q.Out = &answer
	err := a.s.c.calls.Do(ctx, &q)
	r.repeated = r.repeated || q.Unanswered
	if err == nil {
		r.missed = r.missed || !answer.Released && !r.repeated && !r.abandoned
		r.repeated = false
	}
	return err
}

// releaseCall returns the call that ends a hold or a position in a queue.
func releaseCall(path, session, handle string, token uint64) call.Call {
	query := "session=" + url.QueryEscape(session) + "&handle=" + url.QueryEscape(handle)
	if token != 0 {
		query += "&token=" + strconv.FormatUint(token, 10)
	}
	return call.Call{Method: http.MethodDelete, Path: lockapi.RouteLocks + path, Query: query, Settles: call.AnyRefusal}
}

// outlast returns a context for cleanup that lasts as long as ctx, and at least
// d from now, even if ctx has ended. It then ends with the error of ctx. cut ends it, and
// may be called under a lock: it never calls a method of ctx, which is the
// caller's code. done ends it, too, and releases ctx.
func outlast(ctx context.Context, d time.Duration) (out context.Context, cut context.CancelCauseFunc, done func()) {
	out, cut = context.WithCancelCause(context.WithoutCancel(ctx))
	if ctx.Done() == nil {
		return out, cut, func() { cut(nil) }
	}
	end := time.Now().Add(d)
	stop := context.AfterFunc(ctx, func() {
		timing.Sleep(out, time.Until(end))
		cut(ctx.Err()) // not its cause: a hold's context ends with ErrLockLost, which means another thing here
	})
	return out, cut, func() { stop(); cut(nil) }
}
