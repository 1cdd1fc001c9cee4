package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/quota"
	"github.com/stoutlock/stout/master/internal/rights"
	"github.com/stoutlock/stout/replica/state"
)

// AcquireLock asks for a lock and waits up to req.WaitMS for it. A call that
// does not want to wait for a lock that is held is refused from memory, without
// a log entry. A call for a hold that exists is answered from memory, too. The
// error is too_many if a quota has no room for another hold, or for the queue
// position that the call would need.
//
// When ctx ends while the call waits, its wait ends. Session and handle leave
// the queue unless another of their calls waits or the position is kept. A
// grant that arrives at the same moment is withdrawn.
func (m *Master) AcquireLock(ctx context.Context, by *Caller, req *lockapi.AcquireLock) (lockapi.Grant, error) {
	return serve(m, nil, func(o *office) (lockapi.Grant, error) {
		err := o.admit(by)
		if errors.Is(err, lockapi.CodePermissionDenied) {
			return o.held(by, req, err)
		}
		if err != nil {
			return lockapi.Grant{}, err
		}
		a := newAcquire(o, by, req)
		if len(req.With) > 0 {
			if err := o.ReadyFor(&a.op); err != nil {
				return lockapi.Grant{}, err
			}
		}
		if a.refusedAtOnce() {
			return lockapi.Grant{}, a.errHeld()
		}
		a.enter()
		defer a.exit()
		return a.run(ctx)
	})
}

// held returns the caller's existing hold after it lost the right to lock at
// that path. A hold outlives the right to it, and an undelivered grant is
// withdrawn unless its session asks for it. All other callers get the error
// denied.
func (o *office) held(by *Caller, req *lockapi.AcquireLock, denied error) (lockapi.Grant, error) {
	a, s := newAcquire(o, by, req), o.log.State()
	own, _ := s.Session(req.Session)
	if hold, _ := a.key.In(s); hold == nil || own == nil || own.Principal != by.Principal {
		return lockapi.Grant{}, denied
	}
	a.enter()
	defer a.exit()
	if r, ok := a.fromMemory(); ok && r.Hold != nil {
		return a.answer(r)
	}
	return lockapi.Grant{}, denied
}

type acquire struct {
	o     *office
	by    *Caller
	req   *lockapi.AcquireLock
	op    state.Acquire // immutable: the log may have it
	until time.Duration // when the call stops waiting
	registered
	with []registered // for the other locks of a set
}

// registered is the registration of a call for one lock.
type registered struct {
	key      state.HandleKey
	acquires *acquires // guarded by o.mu
	waiter   *waiter
}

func newAcquire(o *office, by *Caller, req *lockapi.AcquireLock) *acquire {
	a := &acquire{o: o, by: by, req: req, op: state.Acquire{
		Session: req.Session, Path: req.Path, Handle: req.Handle, Mode: stateMode(req.Mode), Limit: req.Limit,
		Wait: waitFor(req), DelayMS: req.LockDelayMS,
	}}
	if len(req.With) > 0 {
		a.op.With = req.With
	}
	if req.Priority > 0 && o.log.State().QueuesByPriority() {
		a.op.Priority = uint8(req.Priority)
	}
	a.key = state.HandleKey{Session: req.Session, Path: req.Path, Handle: req.Handle}
	for _, path := range req.With {
		a.with = append(a.with, registered{key: state.HandleKey{Session: req.Session, Path: path, Handle: req.Handle}})
	}
	return a
}

// enter registers the call. The caller must call exit afterwards.
func (a *acquire) enter() {
	if a.req.WaitMS > 0 {
		a.until = a.o.now() + time.Duration(a.req.WaitMS)*time.Millisecond
	}
	a.o.mu.Lock()
	defer a.o.mu.Unlock()
	a.acquires, a.waiter = a.o.waiters.enter(a.key)
	for i := range a.with {
		a.with[i].acquires, a.with[i].waiter = a.o.waiters.enter(a.with[i].key)
	}
}

// exit ends the registration, however the call ended.
func (a *acquire) exit() {
	a.o.mu.Lock()
	defer a.o.mu.Unlock()
	a.o.leave(a.by, &a.registered)
	for i := range a.with {
		a.o.leave(a.by, &a.with[i])
	}
}

// shared returns the registration for the first path in order: all calls for
// the same locks have it, however they order the paths.
func (a *acquire) shared() *registered {
	least := &a.registered
	for i := range a.with {
		if a.with[i].key.Path < least.key.Path {
			least = &a.with[i]
		}
	}
	return least
}

// refusedAtOnce reports whether the lock is unavailable now and the call does
// not want to wait. If no call of its key is under way, the office need not
// register this one.
func (a *acquire) refusedAtOnce() bool {
	if a.op.Wait != state.NoWait || a.o.busy(a.key) || slices.ContainsFunc(a.with, func(r registered) bool { return a.o.busy(r.key) }) {
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
		return lockapi.Grant{}, a.o.quotas.Refuse(full)
	}
	if r.Verdict != state.Queued {
		return a.answer(r)
	}
	return a.await(ctx, r.Wait.Seq, r.Position)
}

// decide returns the result of the request: from memory if it changes nothing,
// else through the log. full is the quota without room for the call's queue
// position; the request was then proposed without waiting.
func (a *acquire) decide() (r state.AcquireResult, full *quota.Excess, err error) {
	if r, ok := a.fromMemory(); ok {
		return r, nil, nil
	}
	reserved, full, err := a.o.quotas.Acquire(&a.op)
	if err != nil {
		return r, nil, err
	}
	defer a.o.quotas.Release(reserved)
	op := a.op // a copy, because the log keeps it
	if full != nil {
		op.Wait = state.NoWait
	}
	r, err = resultOf[state.AcquireResult](a.o.propose(a.by, &op))
	return r, full, err
}

func waitFor(req *lockapi.AcquireLock) state.WaitFor {
	switch {
	case req.Queue:
		return state.Persistent
	case req.WaitMS > 0:
		return state.WhileConnected
	}
	return state.NoWait
}

// atOnce returns the result from memory if the request changes nothing.
func (a *acquire) atOnce() (state.AcquireResult, bool) {
	r, ok := a.o.fromMemory(&a.op)
	if !ok {
		return state.AcquireResult{}, false
	}
	return r.(state.AcquireResult), true
}

// fromMemory is atOnce for a registered call.
func (a *acquire) fromMemory() (state.AcquireResult, bool) {
	a.o.mu.Lock()
	settled := a.acquires.withdrawals == 0
	for i := range a.with {
		settled = settled && a.with[i].acquires.withdrawals == 0
	}
	a.o.mu.Unlock()
	if !settled {
		return state.AcquireResult{}, false
	}
	return a.atOnce()
}

// answer turns a verdict into a reply.
func (a *acquire) answer(r state.AcquireResult) (lockapi.Grant, error) {
	switch r.Verdict {
	case state.Held:
		if len(a.with) > 0 {
			if r.Set == nil {
				r.Set = &state.SetResult{}
			}
			return a.answerSet(r.Set.Holds)
		}
		a.markDelivered(a.o, r.Hold)
		return grantOf(r.Hold), nil
	case state.NoSession:
		return lockapi.Grant{}, rights.ErrNoSession(a.key.Session)
	case state.Conflict:
		if r.Hold != nil && r.Mismatch != state.MismatchSet {
			a.o.mu.Lock()
			a.o.waiters.delivered(r.Hold) // the answer shows that the caller has it
			a.o.mu.Unlock()
		}
		return lockapi.Grant{}, a.errConflict(r)
	}
	return lockapi.Grant{}, a.errHeld()
}

// answerSet returns the grants of a set. Without holds it finds them in the
// state. If one of them has ended since, the caller gets a refusal, and exit
// withdraws the others.
func (a *acquire) answerSet(holds []*state.Hold) (lockapi.Grant, error) {
	if s := a.o.log.State(); holds == nil {
		first, _ := a.key.In(s)
		holds = append(holds, first)
		for i := range a.with {
			h, _ := a.with[i].key.In(s)
			holds = append(holds, h)
		}
	}
	if slices.Contains(holds, nil) {
		return lockapi.Grant{}, a.errHeld()
	}
	a.markDelivered(a.o, holds[0])
	g := grantOf(holds[0])
	for i, h := range holds[1:] {
		a.with[i].markDelivered(a.o, h)
		g.With = append(g.With, lockapi.GrantPart{Path: h.Path, Token: h.Token, Sequencer: sequencer(h)})
	}
	return g, nil
}

// markDelivered records that a caller has the grant: it is not withdrawn after
// that.
func (r *registered) markDelivered(o *office, h *state.Hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.acquires.orphan, r.acquires.delivered = 0, max(r.acquires.delivered, h.WaitSeq) // h may have ended since it was read
}

// errHeld returns the refusal with the lock's present holders, the first ones
// if there are many.
func (a *acquire) errHeld() *lockapi.Error {
	s, room := a.o.log.State(), metaBudget(lockapi.MaxRefusalMeta)
	path := a.unavailable(s)
	l := lockOf(a.o, s, path, lockapi.MaxRefusalHolders, &room)
	if l.State == lockapi.StateDelayed {
		e := lockapi.Errorf(lockapi.CodeLockDelayed, "lock %q is free, but within its lock-delay for another %v; its last holder's session expired",
			path, time.Duration(l.DelayRemainingMS)*time.Millisecond)
		e.DelayRemainingMS = max(1, l.DelayRemainingMS)
		return e
	}
	e := lockapi.Errorf(lockapi.CodeLockHeld, "lock %q is %s", path, lockapi.HeldBy(l.Holders, l.MoreHolders))
	e.Holders, e.MoreHolders, e.DelayRemainingMS = l.Holders, l.MoreHolders, l.DelayRemainingMS
	return a.by.who().FilterRefusal(s, e, path)
}

// unavailable returns the first path of the request with holders or a
// lock-delay, or else the first with waiters.
func (a *acquire) unavailable(s *state.State) string {
	if len(a.with) == 0 {
		return a.key.Path
	}
	paths := a.op.Paths()
	first := slices.IndexFunc(paths, func(path string) bool {
		l, taken := s.Lock(path)
		return taken && (l.Holders > 0 || l.DelayID != 0)
	})
	if first < 0 {
		first = slices.IndexFunc(paths, func(path string) bool { _, taken := s.Lock(path); return taken })
	}
	return paths[max(first, 0)]
}

func (a *acquire) errConflict(r state.AcquireResult) *lockapi.Error {
	has, mode, limit, path := "holds", state.Mode(0), int64(0), a.key.Path
	if r.Set != nil {
		path = r.Set.Path
	}
	switch {
	case r.Mismatch == state.MismatchSet:
		return lockapi.Errorf(lockapi.CodeConflict, "session %q with handle %q has some of the locks %s already, or waits for %q with another set; release them first, or use another handle",
			a.key.Session, a.key.Handle, quotedPaths(a.op.Paths()), path)
	case r.Hold != nil:
		mode, limit = r.Hold.Mode, r.Hold.Limit
	case r.Wait != nil:
		has, mode, limit = "waits for", r.Wait.Mode, r.Wait.Limit
	default:
		return lockapi.Errorf(lockapi.CodeConflict, "limit %d differs from that of the present shared holders and waiters of lock %q; all of them use the same one",
			a.req.Limit, path)
	}
	as := mode.String()
	if limit > 0 {
		as = fmt.Sprintf("%v with limit %d", mode, limit)
	}
	return lockapi.Errorf(lockapi.CodeConflict, "session %q with handle %q %s lock %q already, as %s; release it first, or use another handle",
		a.key.Session, a.key.Handle, has, path, as)
}

// quotedPaths returns a short text with several paths.
func quotedPaths(paths []string) string {
	quoted := make([]string, len(paths))
	for i, path := range paths {
		quoted[i] = strconv.Quote(path)
	}
	return lockapi.Clip(strings.Join(quoted, ", "))
}
