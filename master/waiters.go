package master

import (
	"slices"
	"time"

	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/replica/state"
)

// waiters are the acquires under way, by handle. They ensure that every
// grant from a queue is delivered to a call, becomes an event of its session,
// or is withdrawn: no session holds a lock without knowing it. The office's
// mutex guards them, as it guards the sessions.
type waiters struct {
	openSeq  uint64 // waits numbered up to here are of earlier offices
	log      Log
	sessions *sessions
	byHandle map[state.HandleKey]*acquires
}

// acquires is what the office knows of the calls for one handle. It exists
// while one of these is pending: a call, the grant that follows a 202, an
// orphaned wait within its grace, or a withdrawal.
type acquires struct {
	calls       []*waiter
	wait        uint64 // number of the wait that a call waited for last, or that was granted under one
	delivered   uint64 // number of the wait that led to a delivered grant: returned by a call, or made an event
	queued      bool   // a call was answered 202: the grant becomes an event of the session
	orphan      uint64 // number of a wait of an earlier office that no call has waited for
	withdrawals int    // under way: answer nothing from memory

	set []string // the locks of the wait with the number wait; nil for one lock
}

// waiter is one acquire under way. It is woken when its hold or wait has changed.
type waiter struct{ wakeup wait.Wakeup }

// enter registers a call. It is woken by every change from then on.
func (ws *waiters) enter(key state.HandleKey) (*acquires, *waiter) {
	c := ws.byHandle[key]
	if c == nil {
		c = &acquires{}
		ws.byHandle[key] = c
	}
	w := &waiter{wait.NewWakeup()}
	c.calls = append(c.calls, w)
	return c, w
}

// leave removes a call, if it is there.
func (c *acquires) leave(w *waiter) {
	c.calls = slices.DeleteFunc(c.calls, func(other *waiter) bool { return other == w })
}

// abandoned handles what the last call for a handle leaves behind. It returns the
// number of a wait that must be withdrawn, else 0: a queue position that is not
// kept, or a grant that was not delivered. A kept position stays, and its grant
// becomes an event. A call that was refused leaves an orphan its grace.
func (ws *waiters) abandoned(key state.HandleKey, c *acquires) (withdraw uint64) {
	hold, wait := key.In(ws.log.State())
	switch {
	case wait != nil && !wait.Keep && wait.Seq != c.orphan:
		return wait.Seq // it may be granted before the withdrawal arrives
	case hold == nil || c.wait == 0 || hold.WaitSeq != c.wait || c.delivered == c.wait || c.orphan == c.wait:
	case hold.EventSeq == 0:
		return c.wait
	default:
		ws.notify(c, hold)
	}
	return 0
}

// notify makes a grant an event for its session.
func (ws *waiters) notify(c *acquires, h *state.Hold) {
	if c != nil {
		c.delivered = max(c.delivered, h.WaitSeq) // a call may have been answered from a later state
	}
	ws.sessions.notify(h)
}

// waits records that a call waits for a wait of the handle.
func (c *acquires) waits(seq uint64, set []string) {
	c.orphan = 0
	c.waited(seq, set)
}

// waited records a wait of the handle, for the locks of set.
func (c *acquires) waited(seq uint64, set []string) {
	if seq >= c.wait {
		c.wait, c.set = seq, set
	}
}

// delivered records that a caller knows of a grant, for each lock that was granted
// with it. It records nothing if one of them has ended or is being withdrawn: the
// others are withdrawn with their last call. A grant that is an event needs no
// record: it is not withdrawn, and the record would suppress the event.
func (ws *waiters) delivered(g *state.Hold) {
	s, paths := ws.log.State(), []string{g.Path}
	if c := ws.byHandle[g.HandleKey()]; c != nil && c.wait == g.WaitSeq && c.set != nil {
		paths = c.set
	}
	all := map[state.HandleKey]*acquires{}
	for _, path := range paths {
		key := state.HandleKey{Session: g.Session, Path: path, Handle: g.Handle}
		h, _ := key.In(s)
		c := ws.byHandle[key]
		if h == nil || h.WaitSeq != g.WaitSeq || h.EventSeq != 0 || c != nil && c.withdrawals > 0 {
			return
		}
		if c != nil {
			all[key] = c
		}
	}
	for key, c := range all {
		c.delivered, c.orphan = max(c.delivered, g.WaitSeq), 0
		ws.collect(key, c)
	}
}

// collect forgets a handle that is no longer needed.
func (ws *waiters) collect(key state.HandleKey, c *acquires) {
	if len(c.calls) == 0 && !c.queued && c.orphan == 0 && c.withdrawals == 0 && ws.byHandle[key] == c {
		delete(ws.byHandle, key)
	}
}

// granted wakes the calls that wait for this grant. The grant of a kept
// position also becomes an event of the session if no call waits, if a 202 was
// sent, or if the wait is from an earlier office.
func (ws *waiters) granted(h *state.Hold, w *state.Wait) {
	key := h.HandleKey()
	c := ws.byHandle[key]
	asked := c != nil && len(c.calls) > 0
	if h.EventSeq != 0 && (!asked || c.queued || w.Seq <= ws.openSeq) {
		ws.notify(c, h)
	}
	if c != nil {
		c.queued = c.queued && w.Seq < c.wait // a call may have queued since, by a later state
		c.waited(w.Seq, w.Set)
		ws.wake(key, c)
	}
}

// withdrawn wakes the calls of a wait that has left the queue.
func (ws *waiters) withdrawn(w *state.Wait) {
	key := w.HandleKey()
	if c := ws.byHandle[key]; c != nil {
		c.queued = c.queued && w.Seq < c.wait
		ws.wake(key, c)
	}
}

func (ws *waiters) wake(key state.HandleKey, c *acquires) {
	for _, w := range c.calls {
		w.wakeup.Wake()
	}
	ws.collect(key, c)
}

// adopt remembers a wait of an earlier office without its calls, and gives them
// time to return.
func (ws *waiters) adopt(w *state.Wait) {
	key := w.HandleKey()
	ws.byHandle[key] = &acquires{orphan: w.Seq, wait: w.Seq, set: w.Set}
	ws.sessions.deadlines.add(&deadline{at: ws.sessions.graceEnds(w.Session), of: orphan(key)})
}

// orphan is the deadline of an adopted wait.
type orphan state.HandleKey

// due ends the grace: it withdraws an adopted wait that no call has waited for, and
// its grant if it was granted. Otherwise a session could hold a lock without knowing
// it. A call under way waits for it, or withdraws it when it leaves.
func (w orphan) due(o *office, _ time.Duration) {
	key := state.HandleKey(w)
	if c := o.waiters.byHandle[key]; c != nil && c.orphan != 0 {
		seq := c.orphan
		if c.orphan = 0; len(c.calls) == 0 {
			go o.withdraw(&Caller{}, key, c, seq, true)()
		}
	}
}

// leastUnclaimed is the shortest time that the wire can carry.
const leastUnclaimed = time.Millisecond

// unclaimedFor returns how long a grant from a queue position that was not kept
// may still be asked for before it is withdrawn. It is 0 for a delivered grant,
// which is never withdrawn. It is leastUnclaimed if the grant is about to be
// delivered, or is about to be withdrawn because its call broke off. h may be
// from a state that is not the latest.
func (ws *waiters) unclaimedFor(h *state.Hold, now time.Duration) time.Duration {
	c := ws.byHandle[h.HandleKey()]
	switch {
	case c == nil:
		if _, lasts := ws.log.State().HoldByToken(h.Path, h.Token); !lasts {
			return leastUnclaimed // it has ended since it was read, and may have been withdrawn
		}
		return 0
	case c.delivered == h.WaitSeq:
		return 0
	case c.orphan == h.WaitSeq:
		return max(leastUnclaimed, ws.sessions.graceEnds(h.Session)-now)
	case h.WaitSeq <= ws.openSeq && c.wait != h.WaitSeq:
		return 0 // it was granted in an earlier office, and stays
	}
	return leastUnclaimed
}

// busy reports whether a hold or wait may be about to change because the office
// has calls for it.
func (o *office) busy(key state.HandleKey) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiters.byHandle[key] != nil
}

// leave ends a call's registration, however the call ended. o.mu is held.
func (o *office) leave(by *Caller, r *registered) {
	key, c := r.key, r.acquires
	c.leave(r.waiter)
	if o.waiters.byHandle[key] == c && len(c.calls) == 0 { // else later calls have registered anew
		if seq := o.waiters.abandoned(key, c); seq != 0 {
			go o.withdraw(new(*by), key, c, seq, true)() // a copy: the caller keeps using its own
		}
	}
	o.waiters.collect(key, c)
}

// withdraw gives up a handle's queue position, and with undo also the grant made
// from it. The caller must call the returned function, which waits for the
// outcome. The handle must have no other call. A call that arrives during the
// withdrawal goes through the log behind it. Otherwise that call could be
// answered with a grant that is about to be withdrawn. o.mu is held.
func (o *office) withdraw(by *Caller, key state.HandleKey, c *acquires, seq uint64, undo bool) func() (state.AcquireResult, error) {
	c.withdrawals++
	wait := o.begin(by, &state.Withdraw{Session: key.Session, Path: key.Path, Handle: key.Handle, Seq: seq, Undo: undo})
	return func() (state.AcquireResult, error) {
		r, err := resultOf[state.AcquireResult](wait())
		o.mu.Lock()
		defer o.mu.Unlock()
		c.withdrawals--
		o.waiters.collect(key, c)
		return r, err
	}
}
