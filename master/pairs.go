package master

import (
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
	calls    map[*waiter]struct{}
	told     bool   // some call was answered with the present grant
	queued   bool   // some call was answered 202: the grant is news for its session
	orphan   uint64 // number of a wait of an earlier office that no call has asked about
	leaving  uint64 // number of the wait that is being withdrawn
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
	if p.calls == nil {
		p.calls = map[*waiter]struct{}{}
	}
	w := &waiter{news: make(chan struct{}, 1)}
	p.calls[w] = struct{}{}
	p.orphan = 0
	return p, w
}

// exit ends a call's registration. It is harmless to call it twice.
func (o *office) exit(key pairKey, p *pair, w *waiter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(p.calls, w)
	o.tidy(key, p)
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
	o.pairs[key] = &pair{orphan: w.Seq}
	grace := orphanGrace
	if s := o.sessions[w.Session]; s != nil {
		grace = min(grace, s.ttl)
	}
	o.schedule(&matter{at: o.opened + grace, pair: &key})
}

// orphanDue withdraws a wait that nobody has asked about, and what it may have
// been granted meanwhile: otherwise a lock could be held that nobody knows of.
// o.mu is held.
func (o *office) orphanDue(key pairKey, _ time.Duration) {
	p := o.pairs[key]
	if p == nil || p.orphan == 0 {
		return
	}
	seq := p.orphan
	p.orphan = 0
	o.withdrawing(p, seq)
	go func() {
		o.propose(withdraw(key, seq, true))
		o.withdrew(key, p)
	}()
}

// withdrawing notes that a withdrawal is about to be proposed. o.mu is held.
func (o *office) withdrawing(p *pair, seq uint64) {
	p.leaving = seq
	p.updating++
}

// withdrew notes that a withdrawal has ended.
func (o *office) withdrew(key pairKey, p *pair) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.updating--
	o.tidy(key, p)
}

// granted wakes the calls that wait for this grant. Where none does, or a 202
// went out, the session is to be told instead. o.mu is held.
func (o *office) granted(h *state.Hold, w *state.Wait) {
	key := pairKey{h.Session, h.Path, h.Handle}
	p := o.pairs[key]
	asked := p != nil && len(p.calls) > 0
	if h.EventSeq != 0 && (!asked || p.queued || w.Seq <= o.openSeq) {
		if s := o.sessions[h.Session]; s != nil {
			s.tell(h)
		}
	}
	if p != nil {
		p.queued = false
		o.stir(key, p)
	}
}

// released forgets what was to be told of a grant that has ended. o.mu is held.
func (o *office) released(h *state.Hold) {
	if s := o.sessions[h.Session]; s != nil && h.EventSeq != 0 {
		s.forget(h.EventSeq)
	}
	if p := o.pairs[pairKey{h.Session, h.Path, h.Handle}]; p != nil {
		p.told = false
	}
}

// withdrawn wakes the calls whose place in the queue is gone. o.mu is held.
func (o *office) withdrawn(w *state.Wait) {
	key := pairKey{w.Session, w.Path, w.Handle}
	if p := o.pairs[key]; p != nil {
		p.queued = false
		o.stir(key, p)
	}
}

func (o *office) stir(key pairKey, p *pair) {
	for w := range p.calls {
		select {
		case w.news <- struct{}{}:
		default:
		}
	}
	o.tidy(key, p)
}

func withdraw(key pairKey, seq uint64, undo bool) state.Command {
	return state.Command{Kind: state.Withdraw, Session: key.session, Path: key.path, Handle: key.handle, Seq: seq, Undo: undo}
}

func endDelay(path string, id uint64) state.Command {
	return state.Command{Kind: state.EndDelay, Path: path, Seq: id}
}
