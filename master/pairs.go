package master

import (
	"slices"
	"time"

	"github.com/stoutlock/stout/replica/state"
)

// orphanGrace is how long a wait that an earlier office left behind is kept for
// a caller who may send its call again. A shorter ttl counts instead.
const orphanGrace = 5 * time.Second

// pairKey names who wants or holds a lock: a session and its handle.
type pairKey struct{ session, path, handle string }

// pair is what the office knows of the calls of one (session, handle) for one
// path. It exists while a call is under way, while a 202 has yet to be followed
// by its grant, and while an orphaned wait is given time. Guarded by the
// office's mutex.
type pair struct {
	calls    []*waiter
	place    uint64 // number of the wait that a call waited for last, or that was granted under one
	told     uint64 // number of the wait whose grant some call was answered with, or was made news
	queued   bool   // some call was answered 202: the grant is news for its session
	orphan   uint64 // number of a wait of an earlier office that no call has asked about
	share    share  // of the quotas, for the calls that are in the log
	updating int    // withdrawals under way: answer nothing from memory
}

// waiter is one acquire under way.
type waiter struct {
	news chan struct{} // capacity 1: the pair's claim has changed
}

// enter registers a call with its pair. From then on it hears of every change.
func (o *office) enter(key pairKey) (*pair, *waiter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.pairs[key]
	if p == nil {
		p = &pair{}
		o.pairs[key] = p
	}
	w := &waiter{news: make(chan struct{}, 1)}
	p.calls = append(p.calls, w)
	p.orphan = 0
	return p, w
}

// leaves takes a call out, if it is there. o.mu is held.
func (p *pair) leaves(w *waiter) {
	p.calls = slices.DeleteFunc(p.calls, func(other *waiter) bool { return other == w })
}

// exit ends a call's registration, however the call ended.
func (o *office) exit(key pairKey, p *pair, w *waiter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.leaves(w)
	if o.pairs[key] == p && len(p.calls) == 0 { // else its place is the business of the pair that followed
		o.abandoned(key, p)
	}
	o.tidy(key, p)
}

// abandoned sees to what a pair's last call leaves behind. A place is given up,
// and so is a grant that nobody was told of. A kept place stays, and what it was
// granted becomes news for its session. o.mu is held.
func (o *office) abandoned(key pairKey, p *pair) {
	hold, wait := o.log.State().Claim(key.session, key.path, key.handle)
	switch {
	case wait != nil && !wait.Keep:
		go o.withdraw(key, p, wait.Seq, true)() // or it is granted before that arrives
	case hold == nil || p.place == 0 || hold.WaitSeq != p.place || p.told == p.place:
	case hold.EventSeq == 0:
		go o.withdraw(key, p, p.place, true)()
	default:
		o.tell(p, hold)
	}
}

// tell makes a grant news for its session. o.mu is held.
func (o *office) tell(p *pair, h *state.Hold) {
	if p != nil {
		p.told = h.WaitSeq
	}
	if s := o.sessions[h.Session]; s != nil {
		s.tell(h)
	}
}

// tidy forgets a pair that nobody needs any more. o.mu is held.
func (o *office) tidy(key pairKey, p *pair) {
	if len(p.calls) == 0 && !p.queued && p.orphan == 0 && p.updating == 0 && o.pairs[key] == p {
		delete(o.pairs, key)
	}
}

// orphan remembers a wait of an earlier office whose calls are gone, and gives
// them time to come back. The office is not in use yet.
func (o *office) orphan(w *state.Wait) {
	key := pairKey{w.Session, w.Path, w.Handle}
	o.pairs[key] = &pair{orphan: w.Seq, place: w.Seq}
	o.schedule(&matter{at: o.graceEnds(w.Session), pair: &key})
}

// graceEnds is when the waits of a session that this office has inherited are given
// up, unless somebody asks about them. o.mu is held, or the office is not in use yet.
func (o *office) graceEnds(session string) time.Duration {
	grace := orphanGrace
	if s := o.sessions[session]; s != nil {
		grace = min(grace, s.ttl)
	}
	return o.opened + grace
}

// unclaimedFor is for how long a grant from a place that was not kept may still be
// asked for before it is taken back; 0 for one that never will be, since some caller
// was told of it. Where a call is about to be told, or one that broke off is cleaned up
// after, that is no time at all, and the least that can be shown. The grant may be one
// of a state that is not the latest. o.mu is held.
func (o *office) unclaimedFor(h *state.Hold) time.Duration {
	p := o.pairs[pairKey{h.Session, h.Path, h.Handle}]
	switch {
	case p == nil:
		if _, lasts := o.log.State().HoldByToken(h.Path, h.Token); !lasts {
			return leastUnclaimed // it has ended since it was read, and may have been taken back
		}
		return 0
	case p.told == h.WaitSeq:
		return 0
	case p.orphan == h.WaitSeq:
		return max(leastUnclaimed, o.graceEnds(h.Session)-o.opts.Clock())
	case h.WaitSeq <= o.openSeq && p.place != h.WaitSeq:
		return 0 // it was granted in an earlier office, and stays
	}
	return leastUnclaimed
}

// leastUnclaimed is the shortest time that the wire can carry.
const leastUnclaimed = time.Millisecond

// orphanDue withdraws a wait that nobody has asked about, and what it may have
// been granted meanwhile: otherwise a lock could be held that nobody knows of.
// o.mu is held.
func (o *office) orphanDue(key pairKey) {
	p := o.pairs[key]
	if p == nil || p.orphan == 0 {
		return
	}
	seq := p.orphan
	p.orphan = 0
	go o.withdraw(key, p, seq, true)()
}

// withdraw gives up a pair's place in a queue, with undo also what the place was
// granted; the function that it returns waits for the outcome and has to be
// called. It is for a pair without any other call. One that comes while the
// withdrawal is under way goes through the log and finds its place behind it:
// otherwise it could be told of a grant that is about to be taken back. o.mu is
// held.
func (o *office) withdraw(key pairKey, p *pair, seq uint64, undo bool) func() (state.AcquireResult, error) {
	p.updating++
	wait := o.begin(&state.Withdraw{Session: key.session, Path: key.path, Handle: key.handle, Seq: seq, Undo: undo})
	return func() (state.AcquireResult, error) {
		r, err := resultOf[state.AcquireResult](wait())
		o.mu.Lock()
		defer o.mu.Unlock()
		p.updating--
		o.tidy(key, p)
		return r, err
	}
}

// granted wakes the calls that wait for this grant. Where none does, or a 202
// went out, the session is to be told instead. o.mu is held.
func (o *office) granted(h *state.Hold, w *state.Wait) {
	key := pairKey{h.Session, h.Path, h.Handle}
	o.unplaced(key)
	p := o.pairs[key]
	asked := p != nil && len(p.calls) > 0
	if h.EventSeq != 0 && (!asked || p.queued || w.Seq <= o.openSeq) {
		o.tell(p, h)
	}
	if p != nil {
		p.place, p.queued = w.Seq, false
		o.stir(key, p)
	}
}

// released forgets a grant that has ended, and what was to be told of it. o.mu is held.
func (o *office) released(h *state.Hold) {
	o.unclaimed(pairKey{h.Session, h.Path, h.Handle})
	if s := o.sessions[h.Session]; s != nil && h.EventSeq != 0 {
		s.forget(h.EventSeq)
	}
}

// withdrawn wakes the calls whose place in the queue is gone. o.mu is held.
func (o *office) withdrawn(w *state.Wait) {
	key := pairKey{w.Session, w.Path, w.Handle}
	o.unclaimed(key)
	o.unplaced(key)
	if p := o.pairs[key]; p != nil {
		p.queued = false
		o.stir(key, p)
	}
}

func (o *office) stir(key pairKey, p *pair) {
	for _, w := range p.calls {
		select {
		case w.news <- struct{}{}:
		default:
		}
	}
	o.tidy(key, p)
}
