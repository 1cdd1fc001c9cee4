package master

import (
	"context"
	"errors"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/rights"
	"github.com/stoutlock/stout/replica/state"
)

// await waits for the grant of the wait seq. No other call withdraws that wait,
// because this call is registered for its handle. position is the queue
// position if the wait was just made, else 0.
func (a *acquire) await(ctx context.Context, seq uint64, position int) (lockapi.Grant, error) {
	var set []string
	if len(a.with) > 0 {
		set = a.op.Paths()
	}
	a.o.mu.Lock()
	a.acquires.waits(seq, set) // a later call may have waited since seq was found
	for i := range a.with {
		a.with[i].acquires.waits(seq, set)
	}
	a.o.mu.Unlock()
	t := stoppedTimer()
	defer t.Stop()
	for {
		if ctx.Err() != nil {
			return lockapi.Grant{}, a.errHeld() // the caller is gone; exit ends the wait
		}
		if done, grant, err := a.checkWait(seq); done {
			return grant, err
		}
		if err := a.o.authorize(a.by); err != nil {
			return a.forbidden(seq, err)
		}
		left := a.until - a.o.now()
		if left <= 0 {
			return a.timedOut(seq, position)
		}
		t.Reset(a.by.within(a.o.log.State(), left))
		position = 0 // it changes while the call waits
		select {
		case <-a.waiter.wakeup:
		case <-t.C:
		case <-a.o.done:
			return lockapi.Grant{}, errUnknown()
		case <-ctx.Done():
		}
	}
}

// forbidden ends the wait of a caller that lost the right to it. It returns the
// refusal once the wait has ended, because a refused call has no effect. If the
// grant came first, the grant stays and is returned. An expired credential ends
// only the waiting: a kept position stays if the session's principal may have
// it.
func (a *acquire) forbidden(seq uint64, refusal error) (lockapi.Grant, error) {
	if errors.Is(refusal, lockapi.CodeNoMaster) {
		return lockapi.Grant{}, errUnknown() // the wait may still be queued, and a later master may grant it
	}
	s := a.o.log.State()
	if _, wait := a.key.In(s); wait != nil && wait.Seq == seq && wait.Keep && rights.MayWait(s, wait) && a.by.ended(s) {
		return a.queued(seq, 0)
	}
	a.o.mu.Lock()
	if at := a.shared(); len(at.acquires.calls) > 1 {
		at.acquires.leave(at.waiter) // the other calls are checked by themselves
		a.o.mu.Unlock()
		return lockapi.Grant{}, refusal
	}
	a.o.mu.Unlock()
	if _, err := a.o.propose(a.by, &state.Expel{Session: a.key.Session, Path: a.key.Path, Handle: a.key.Handle, Seq: seq}); err != nil {
		return lockapi.Grant{}, errUnknown()
	}
	if hold, _ := a.key.In(a.o.log.State()); hold != nil && hold.WaitSeq == seq {
		return a.answer(state.AcquireResult{Verdict: state.Held, Hold: hold})
	}
	return lockapi.Grant{}, refusal
}

// checkWait reports whether the wait has ended by the state, and the answer.
func (a *acquire) checkWait(seq uint64) (done bool, grant lockapi.Grant, err error) {
	s := a.o.log.State()
	hold, wait := a.key.In(s)
	switch {
	case wait != nil && wait.Seq == seq:
		return false, grant, nil
	case hold != nil && hold.WaitSeq == seq:
		grant, err = a.answer(state.AcquireResult{Verdict: state.Held, Hold: hold})
		return true, grant, err
	}
	if _, lives := s.Session(a.key.Session); !lives {
		return true, grant, rights.ErrNoSession(a.key.Session)
	}
	if err := a.o.authorize(a.by); err != nil { // the wait was ended for this
		return true, grant, err
	}
	return true, grant, a.errHeld()
}

// timedOut ends a wait after its time. It returns the position of a kept
// wait; it withdraws any other wait unless another call waits for it, too.
func (a *acquire) timedOut(seq uint64, position int) (lockapi.Grant, error) {
	a.o.mu.Lock()
	_, wait := a.key.In(a.o.log.State())
	if a.req.Queue || (wait != nil && wait.Seq == seq && wait.Keep) {
		a.o.mu.Unlock()
		return a.queued(seq, position)
	}
	if at := a.shared(); len(at.acquires.calls) > 1 {
		// The call leaves under this mutex: when several calls time out
		// together, the last one must see that it is the last.
		at.acquires.leave(at.waiter)
		a.o.mu.Unlock()
		return lockapi.Grant{}, a.errHeld()
	}
	withdrawn := a.o.withdraw(a.by, a.key, a.acquires, seq, false)
	a.o.mu.Unlock()
	r, err := withdrawn()
	switch {
	case err != nil:
		return lockapi.Grant{}, errUnknown() // even if the withdrawal was not applied: the wait is still queued
	case r.Verdict == state.Queued: // kept by a call that came in between
		return a.queued(seq, 0)
	case r.Verdict == state.Held:
		return a.answer(r)
	}
	_, grant, err := a.checkWait(seq)
	return grant, err
}

// queued returns the queue position (202), or the grant if it has arrived. A
// position of 0 is looked up.
func (a *acquire) queued(seq uint64, position int) (lockapi.Grant, error) {
	a.o.mu.Lock()
	s := a.o.log.State()
	_, wait := a.key.In(s)
	there := wait != nil && wait.Seq == seq
	if there {
		a.acquires.queued = true // the office has seen no grant yet; a later one becomes an event
		for i := range a.with {
			a.with[i].acquires.queued = true
		}
	}
	a.o.mu.Unlock()
	if !there {
		_, grant, err := a.checkWait(seq)
		return grant, err
	}
	if position == 0 {
		position = s.Position(wait)
	}
	return queuedOf(wait, position), nil
}
