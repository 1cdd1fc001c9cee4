package master

import (
	"context"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// Acquire asks for a lock and waits up to req.WaitMS for it. A lock that is
// held is refused from memory, without a log entry, when the call does not want
// to wait; so is the answer to a pair that holds already. A quota that leaves no
// room for another claim is too_many, and so is one that leaves none for the
// place in the queue that the call would need.
//
// When ctx ends while the call waits, its wait ends: the pair leaves the queue
// unless another of its calls waits or the place is a kept one, and a grant that
// came in the same moment is taken back.
func (m *Master) Acquire(ctx context.Context, path string, req lockapi.LockRequest) (lockapi.Grant, error) {
	o, err := m.admit()
	if err != nil {
		return lockapi.Grant{}, err
	}
	a := newAcquire(o, path, &req)
	if a.refusedAtOnce() {
		return lockapi.Grant{}, a.errHeld()
	}
	a.until = o.opts.Clock() + time.Duration(req.WaitMS)*time.Millisecond
	a.pair, a.waiter = o.enter(a.key)
	defer o.exit(a.key, a.pair, a.waiter)
	return a.run(ctx)
}

// acquire is one call under way.
type acquire struct {
	*office
	req    *lockapi.LockRequest
	key    pairKey
	op     state.Acquire // is never changed: the log may have it
	until  time.Duration // when the call stops waiting
	pair   *pair
	waiter *waiter
}

func newAcquire(o *office, path string, req *lockapi.LockRequest) *acquire {
	return &acquire{office: o, req: req, key: pairKey{req.Session, path, req.Handle}, op: state.Acquire{
		Session: req.Session, Path: path, Handle: req.Handle, Mode: stateMode(req.Mode), Limit: req.Limit,
		Wait: waitFor(req), DelayMS: req.LockDelayMS,
	}}
}

// refusedAtOnce says that the lock is not to be had now and the call does not want
// to wait. Where no call of its pair is under way the office need not hear of it.
func (a *acquire) refusedAtOnce() bool {
	if a.op.Wait != state.NoWait {
		return false
	}
	a.mu.Lock()
	_, busy := a.pairs[a.key]
	a.mu.Unlock()
	if busy {
		return false
	}
	r, ok := a.atOnce()
	return ok && (r.Verdict == state.Busy || r.Verdict == state.Delayed)
}

func (a *acquire) run(ctx context.Context) (lockapi.Grant, error) {
	r, full, err := a.decide()
	switch {
	case err != nil:
		return lockapi.Grant{}, err
	case full != nil && (r.Verdict == state.Busy || r.Verdict == state.Delayed):
		return lockapi.Grant{}, a.refuse(full)
	}
	if r.Verdict != state.Queued {
		return a.answer(r)
	}
	return a.await(ctx, r.Wait.Seq, r.Position)
}

// decide finds out what the request comes to: from memory where that takes no
// change, else through the log. full is the quota for which a call that would
// have waited was proposed as one that does not.
func (a *acquire) decide() (r state.AcquireResult, full *lack, err error) {
	a.mu.Lock()
	settled := a.pair.updating == 0
	a.mu.Unlock()
	if settled {
		if r, ok := a.atOnce(); ok {
			return r, nil, nil
		}
	}
	full, err = a.reserve()
	if err != nil {
		return r, nil, err
	}
	defer a.release()
	op := a.op // which the log keeps
	if full != nil {
		op.Wait = state.NoWait
	}
	r, err = resultOf[state.AcquireResult](a.propose(&op))
	return r, full, err
}

func waitFor(req *lockapi.LockRequest) state.WaitFor {
	switch {
	case req.Queue:
		return state.Persistent
	case req.WaitMS > 0:
		return state.WhileConnected
	}
	return state.NoWait
}

// atOnce answers what changes nothing.
func (a *acquire) atOnce() (state.AcquireResult, bool) {
	r, ok := a.fromMemory(&a.op)
	if !ok {
		return state.AcquireResult{}, false
	}
	return r.(state.AcquireResult), true
}

// answer turns a verdict into a reply.
func (a *acquire) answer(r state.AcquireResult) (lockapi.Grant, error) {
	switch r.Verdict {
	case state.Held:
		a.told(r.Hold)
		return grantOf(r.Hold), nil
	case state.NoSession:
		return lockapi.Grant{}, errNoSession(a.key.session)
	case state.Conflict:
		if r.Hold != nil {
			a.told(r.Hold) // the answer says that the pair holds the lock
		}
		return lockapi.Grant{}, a.errConflict(r)
	}
	return lockapi.Grant{}, a.errHeld()
}

// told notes that a caller is told of a grant: from now on it is the pair's own.
func (a *acquire) told(h *state.Hold) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pair.told = h.WaitSeq
}

// await waits for the grant of the place seq. Its call is one of the pair's, so
// nobody else gives the place up meanwhile. position is that of the place where
// it was just made, else 0.
func (a *acquire) await(ctx context.Context, seq uint64, position int) (lockapi.Grant, error) {
	a.mu.Lock()
	a.pair.place = seq
	a.mu.Unlock()
	t := stoppedTimer()
	defer t.Stop()
	for {
		if ctx.Err() != nil {
			return lockapi.Grant{}, a.errHeld() // nobody reads it; exit sees to the place
		}
		if done, grant, err := a.look(seq); done {
			return grant, err
		}
		left := a.until - a.opts.Clock()
		if left <= 0 {
			return a.timedOut(seq, position)
		}
		t.Reset(left)
		position = 0 // it changes while the call waits
		select {
		case <-a.waiter.news:
		case <-t.C:
		case <-a.done:
			return lockapi.Grant{}, errUnknown()
		case <-ctx.Done():
		}
	}
}

// look reads from the state what has become of the place.
func (a *acquire) look(seq uint64) (done bool, grant lockapi.Grant, err error) {
	s := a.log.State()
	hold, wait := s.Claim(a.key.session, a.key.path, a.key.handle)
	switch {
	case wait != nil && wait.Seq == seq:
		return false, grant, nil
	case hold != nil && hold.WaitSeq == seq:
		grant, err = a.answer(state.AcquireResult{Verdict: state.Held, Hold: hold})
		return true, grant, err
	}
	if _, lives := s.Session(a.key.session); !lives {
		return true, grant, errNoSession(a.key.session)
	}
	return true, grant, a.errHeld()
}

// timedOut ends a wait whose time is up: a kept place is told, another is given
// up if no other call of the pair waits for it.
func (a *acquire) timedOut(seq uint64, position int) (lockapi.Grant, error) {
	a.mu.Lock()
	_, wait := a.log.State().Claim(a.key.session, a.key.path, a.key.handle)
	if a.req.Queue || (wait != nil && wait.Seq == seq && wait.Keep) {
		a.mu.Unlock()
		return a.queued(seq, position)
	}
	if len(a.pair.calls) > 1 {
		// It leaves in this very moment: of calls whose time is up together, the
		// last one has to see that it is the last.
		a.pair.leaves(a.waiter)
		a.mu.Unlock()
		return lockapi.Grant{}, a.errHeld()
	}
	withdrawn := a.withdraw(a.key, a.pair, seq, false)
	a.mu.Unlock()
	r, err := withdrawn()
	switch {
	case err != nil:
		return lockapi.Grant{}, errUnknown() // also where the withdrawal was not applied: the place is in the queue
	case r.Verdict == state.Queued: // kept by a call that came in between
		return a.queued(seq, 0)
	case r.Verdict == state.Held:
		return a.answer(r)
	}
	_, grant, err := a.look(seq)
	return grant, err
}

// queued answers 202, or with the grant that has come by now. A position of 0 is
// looked up.
func (a *acquire) queued(seq uint64, position int) (lockapi.Grant, error) {
	a.mu.Lock()
	s := a.log.State()
	_, wait := s.Claim(a.key.session, a.key.path, a.key.handle)
	there := wait != nil && wait.Seq == seq
	if there {
		a.pair.queued = true // the office has not heard of a grant yet; then it becomes news
	}
	a.mu.Unlock()
	if !there {
		_, grant, err := a.look(seq)
		return grant, err
	}
	if position == 0 {
		position = s.Position(wait)
	}
	return queuedOf(wait, position), nil
}

// errHeld tells who stands in the way, as it is now: the first of them, if there
// are many.
func (a *acquire) errHeld() *lockapi.Error {
	room := metaRoom(lockapi.MaxRefusalMeta)
	l := lockOf(a.office, a.log.State(), a.key.path, lockapi.MaxRefusalHolders, &room)
	if l.State == lockapi.StateDelayed {
		e := lockapi.Errorf(lockapi.CodeLockDelayed, "lock %q is free, but within its lock-delay for another %v; its last holder's session expired",
			a.key.path, time.Duration(l.DelayRemainingMS)*time.Millisecond)
		e.DelayRemainingMS = max(1, l.DelayRemainingMS)
		return e
	}
	e := lockapi.Errorf(lockapi.CodeLockHeld, "lock %q was not granted (holders: %d, waiters: %d, lock-delay: %d ms); wait with wait_ms or queue",
		a.key.path, len(l.Holders)+l.MoreHolders, l.Waiters, l.DelayRemainingMS)
	e.Holders, e.MoreHolders, e.DelayRemainingMS = l.Holders, l.MoreHolders, l.DelayRemainingMS
	return e
}

func (a *acquire) errConflict(r state.AcquireResult) *lockapi.Error {
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
