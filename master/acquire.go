package master

import (
	"context"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// Acquire asks for a lock and waits up to req.WaitMS for it. A lock that is
// held is refused from memory, without a log entry, when the call does not want
// to wait; so is the answer to a pair that holds already.
//
// When ctx ends while the call waits, its wait ends: the pair leaves the queue
// unless another of its calls waits or the place is a kept one, and a grant that
// came in the same moment is taken back.
func (m *Master) Acquire(ctx context.Context, path string, req lockapi.LockRequest) (lockapi.Grant, error) {
	o, err := m.admit()
	if err != nil {
		return lockapi.Grant{}, err
	}
	a := acquire{
		office: o, req: &req, key: pairKey{req.Session, path, req.Handle}, mode: stateMode(req.Mode),
		until: o.opts.Clock() + time.Duration(req.WaitMS)*time.Millisecond,
	}
	a.pair, a.waiter = o.enter(a.key)
	defer o.exit(a.key, a.pair, a.waiter)
	return a.run(ctx)
}

// acquire is one call under way.
type acquire struct {
	*office
	req    *lockapi.LockRequest
	key    pairKey
	mode   state.Mode
	until  time.Duration // when the call stops waiting
	pair   *pair
	waiter *waiter
}

func (a *acquire) run(ctx context.Context) (lockapi.Grant, error) {
	for {
		r, err := a.decide()
		if err != nil {
			return lockapi.Grant{}, err
		}
		if r.Verdict != state.Queued {
			return a.answer(r)
		}
		grant, again, err := a.await(ctx, r)
		if !again {
			return grant, err
		}
	}
}

// decide finds out what the request comes to: from memory where that takes no
// change, else through the log.
func (a *acquire) decide() (state.Result, error) {
	a.mu.Lock()
	settled := a.pair.updating == 0
	a.mu.Unlock()
	if settled {
		// Read, then check the lease; without it the log decides.
		if r, ok := a.fromMemory(a.log.State()); ok && a.lease.Valid(a.opts.Clock()) {
			return r, nil
		}
	}
	return a.propose(state.Command{
		Kind: state.Acquire, Session: a.key.session, Path: a.key.path, Handle: a.key.handle,
		Mode: a.mode, Limit: a.req.Limit, Wait: a.waitFor(), DelayMS: a.req.LockDelayMS,
	})
}

func (a *acquire) waitFor() state.WaitFor {
	switch {
	case a.req.Queue:
		return state.Keep
	case a.req.WaitMS > 0:
		return state.WhileHot
	}
	return state.NoWait
}

// fromMemory answers what changes nothing.
func (a *acquire) fromMemory(s *state.State) (state.Result, bool) {
	if _, ok := s.Session(a.key.session); !ok {
		return state.Result{Verdict: state.NoSession}, true
	}
	hold, wait := s.Claim(a.key.session, a.key.path, a.key.handle)
	switch {
	case hold != nil:
		if clash := hold.Clash(a.mode, a.req.Limit); clash != state.NoClash {
			return state.Result{Verdict: state.Conflict, Clash: clash, Hold: hold}, true
		}
		return state.Result{Verdict: state.Held, Hold: hold}, true
	case wait != nil:
		if clash := wait.Clash(a.mode, a.req.Limit); clash != state.NoClash {
			return state.Result{Verdict: state.Conflict, Clash: clash, Wait: wait}, true
		}
		return state.Result{Verdict: state.Queued, Wait: wait}, wait.Keep || !a.req.Queue
	}
	r := s.Decide(a.key.path, a.mode, a.req.Limit)
	return r, r.Verdict == state.Conflict || (r.Verdict != state.Held && a.waitFor() == state.NoWait)
}

// answer turns a verdict into a reply.
func (a *acquire) answer(r state.Result) (lockapi.Grant, error) {
	switch r.Verdict {
	case state.Held:
		a.mu.Lock()
		a.pair.told = true
		a.mu.Unlock()
		return grantOf(r.Hold), nil
	case state.NoSession:
		return lockapi.Grant{}, errNoSession(a.key.session)
	case state.Conflict:
		return lockapi.Grant{}, a.errConflict(r)
	}
	return lockapi.Grant{}, a.errHeld()
}

// await waits for the grant of the place r.Wait. again says that the place was
// lost to the end of another call of the pair, so that the request is made anew.
func (a *acquire) await(ctx context.Context, r state.Result) (grant lockapi.Grant, again bool, err error) {
	seq := r.Wait.Seq
	t := time.NewTimer(a.until - a.opts.Clock())
	defer t.Stop()
	for {
		if ctx.Err() != nil { // before the look: nobody is there to be told of a grant
			a.broken(seq)
			return grant, false, a.errHeld()
		}
		if done, grant, again, err := a.look(seq); done {
			return grant, again, err
		}
		if a.opts.Clock() >= a.until {
			grant, err = a.timedOut(seq)
			return grant, false, err
		}
		select {
		case <-a.waiter.news:
		case <-t.C:
		case <-a.done:
			return grant, false, errUnknown()
		case <-ctx.Done():
		}
	}
}

// look reads from the state what has become of the place.
func (a *acquire) look(seq uint64) (done bool, grant lockapi.Grant, again bool, err error) {
	s := a.log.State()
	hold, wait := s.Claim(a.key.session, a.key.path, a.key.handle)
	switch {
	case wait != nil && wait.Seq == seq:
		return false, grant, false, nil
	case hold != nil && hold.WaitSeq == seq:
		grant, err = a.answer(state.Result{Verdict: state.Held, Hold: hold})
		return true, grant, false, err
	}
	if _, lives := s.Session(a.key.session); !lives {
		return true, grant, false, errNoSession(a.key.session)
	}
	a.mu.Lock()
	again = a.pair.leaving == seq && a.opts.Clock() < a.until
	a.mu.Unlock()
	return true, grant, again, a.errHeld()
}

// timedOut ends a wait whose time is up: a kept place is told, another is given
// up if no other call of the pair waits for it.
func (a *acquire) timedOut(seq uint64) (lockapi.Grant, error) {
	a.mu.Lock()
	_, wait := a.log.State().Claim(a.key.session, a.key.path, a.key.handle)
	kept := a.req.Queue || (wait != nil && wait.Seq == seq && wait.Keep)
	if kept {
		a.pair.queued = true // before the last look: a grant after it becomes news
	}
	others := len(a.pair.calls) > 1
	if !kept && !others {
		a.withdrawing(a.pair, seq)
	}
	a.mu.Unlock()
	switch {
	case kept:
		return a.queued(seq)
	case others:
		if done, grant, _, err := a.look(seq); done {
			return grant, err
		}
		return lockapi.Grant{}, a.errHeld()
	}
	r, err := a.propose(withdraw(a.key, seq, false))
	a.withdrew(a.key, a.pair)
	if err != nil {
		return lockapi.Grant{}, err
	}
	if r.Verdict == state.Queued { // kept by a call that came in between
		return queuedOf(r.Wait, r.Position), nil
	}
	if r.Verdict == state.Held {
		return a.answer(r)
	}
	_, grant, _, err := a.look(seq)
	return grant, err
}

// queued answers 202, or with the grant that has come by now.
func (a *acquire) queued(seq uint64) (lockapi.Grant, error) {
	if done, grant, _, err := a.look(seq); done {
		a.mu.Lock()
		a.pair.queued = false
		a.mu.Unlock()
		return grant, err
	}
	s := a.log.State()
	if _, wait := s.Claim(a.key.session, a.key.path, a.key.handle); wait != nil {
		return queuedOf(wait, s.Position(wait)), nil
	}
	return a.queued(seq) // it was granted, or went, since the look
}

// broken ends the wait of a call whose caller has gone. If it was the last one,
// the place is given up, and so is a grant that nobody was told of.
func (a *acquire) broken(seq uint64) {
	a.mu.Lock()
	last := len(a.pair.calls) == 1 && !a.pair.told && !a.req.Queue
	if last {
		a.withdrawing(a.pair, seq)
	}
	a.mu.Unlock()
	if last {
		go func() {
			a.propose(withdraw(a.key, seq, true))
			a.withdrew(a.key, a.pair)
		}()
	}
}

// errHeld tells who stands in the way, as it is now.
func (a *acquire) errHeld() *lockapi.Error {
	l := a.lockOf(a.log.State(), a.key.path)
	if l.State == lockapi.StateDelayed {
		e := lockapi.Errorf(lockapi.CodeLockDelayed, "lock %q is free, but within its lock-delay for another %v; its last holder's session expired",
			a.key.path, time.Duration(l.DelayRemainingMS)*time.Millisecond)
		e.DelayRemainingMS = max(1, l.DelayRemainingMS)
		return e
	}
	e := lockapi.Errorf(lockapi.CodeLockHeld, "lock %q was not granted: it has %d holders and %d waiters; wait with wait_ms or queue",
		a.key.path, len(l.Holders), l.Waiters)
	e.Holders, e.DelayRemainingMS = l.Holders, l.DelayRemainingMS
	return e
}

func (a *acquire) errConflict(r state.Result) *lockapi.Error {
	has, mode, limit := "holds", state.Mode(0), int64(0)
	switch {
	case r.Hold != nil:
		mode, limit = r.Hold.Mode, r.Hold.Limit
	case r.Wait != nil:
		has, mode, limit = "waits for", r.Wait.Mode, r.Wait.Limit
	default:
		return lockapi.Errorf(lockapi.CodeConflict, "limit %d differs from that of the present shared holders and waiters of lock %q; all of them use the same one",
			a.req.Limit, a.key.path)
	}
	return lockapi.Errorf(lockapi.CodeConflict, "session %q with handle %q %s lock %q already, as %v with limit %d; release it first, or use another handle",
		a.key.session, a.key.handle, has, a.key.path, mode, limit)
}
