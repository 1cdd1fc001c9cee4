package state

import (
	"fmt"
	"slices"
)

// WaitFor selects the treatment of an acquire that cannot be granted at once.
type WaitFor uint8

// Values of WaitFor.
const (
	NoWait         WaitFor = 0 // refuse it
	WhileConnected WaitFor = 1 // queue it; the position ends with the last call that waits for it
	Persistent     WaitFor = 2 // queue it; the position lasts until granted, released or the session's end
)

// Acquire requests a lock. Repeating a request returns the same grant or queue
// position. The result is an AcquireResult.
type Acquire struct {
	Session string  `cbor:"1,keyasint,omitempty"`
	Path    string  `cbor:"2,keyasint,omitempty"`
	Handle  string  `cbor:"3,keyasint,omitempty"`
	Mode    Mode    `cbor:"4,keyasint,omitempty"`
	Limit   int64   `cbor:"5,keyasint,omitempty"`
	Wait    WaitFor `cbor:"6,keyasint,omitempty"`
	DelayMS int64   `cbor:"7,keyasint,omitempty"`
	// Priority of the queue position, from levelQuotas on: see Wait.
	Priority uint8 `cbor:"8,keyasint,omitempty"`
	// With are further locks, from levelQuotas on. All are granted together,
	// or the request waits in all their queues at once.
	With []string `cbor:"9,keyasint,omitempty"`
}

// MaxSet is how many locks one Acquire may request.
const MaxSet = 16

// QueuesByPriority reports whether an Acquire may have a priority.
func (s *State) QueuesByPriority() bool { return s.Level >= levelQuotas }

// AcquireResult is the result of Acquire: Held, Queued, Busy, Delayed, Conflict
// or NoSession. Withdraw also returns one.
type AcquireResult struct {
	Verdict  Verdict
	Mismatch Mismatch
	Hold     *Hold // nil from Would if the operation would change something
	Wait     *Wait // nil from Would if the operation would change something
	// Set is nil for a single lock.
	Set *SetResult
	// Position is the queue position of a new wait. It is 0 for an existing
	// one, since finding it takes a walk (State.Position).
	Position int
}

// SetResult is the rest of the result of an Acquire of several locks.
type SetResult struct {
	Path  string  // of the lock that refuses the request
	Holds []*Hold // in the order of the paths
}

// Enqueued reports a new queue position. It has a revision if the lock is held
// and this wait is the next one: the lock is now contended, or by a wait of
// higher priority than before.
type Enqueued struct {
	Revision uint64
	Wait     *Wait
}

// Kept reports that a queue position has become persistent.
type Kept struct{ Wait *Wait }

func (op *Acquire) unknown() string {
	switch {
	case op.Mode > Shared:
		return fmt.Sprintf("mode %d", op.Mode)
	case op.Wait > Persistent:
		return fmt.Sprintf("wait %d", op.Wait)
	case op.Priority > MaxPriority:
		return fmt.Sprintf("priority %d", op.Priority)
	}
	return ""
}

func (op *Acquire) wellFormed() bool {
	for i, path := range op.With {
		if path == "" || path == op.Path || !plain(path) || slices.Contains(op.With[:i], path) {
			return false
		}
	}
	return op.Path != "" && sound(op.Mode, op.Limit) && plain(op.Path) && len(op.With) < MaxSet
}

func (op *Acquire) size() int {
	n := 48 + len(op.Session) + len(op.Path) + len(op.Handle)
	for _, path := range op.With {
		n += 2 + len(path)
	}
	return n
}

// would decides whether a request gets its lock at once.
func (op *Acquire) would(s *State) (Result, bool) {
	if len(op.With) > 0 {
		return op.wouldSet(s)
	}
	if has, ok := s.handles.Get(HandleKey{op.Session, op.Path, op.Handle}); ok {
		return op.again(has)
	}
	if _, ok := s.sessions.Get(op.Session); !ok {
		return AcquireResult{Verdict: NoSession}, false
	}
	n, ok := s.nodes.Get(op.Path)
	if !ok {
		return AcquireResult{Verdict: Held}, true
	}
	r := n.decide(op.Mode, op.Limit)
	position := op.position(s, n.Waiters)
	switch {
	case r.Verdict == Held:
		return r, true
	case r.Verdict == Busy && position == 1 && n.DelayID == 0 && n.admits(op.Mode, op.Limit): // its priority puts it before all waiters
		return AcquireResult{Verdict: Held}, true
	case r.Verdict == Conflict, op.Wait == NoWait:
		return r, false
	}
	return AcquireResult{Verdict: Queued, Position: position}, true
}

// position returns the position that the request would have in the queue.
func (op *Acquire) position(s *State, waiters int) int {
	if op.Priority == 0 {
		return waiters + 1
	}
	n := 1
	for range while(s.Queue(op.Path), func(w *Wait) bool { return w.Priority >= op.Priority }) {
		n++
	}
	return n
}

// again returns the result for a hold or wait that exists already: the same grant or
// queue position. The only possible change is that the position becomes
// persistent.
func (op *Acquire) again(has holdOrWait) (Result, bool) {
	if h := has.hold; h != nil {
		if clash := op.clash(h.Mode, h.Limit); clash != NoMismatch {
			return AcquireResult{Verdict: Conflict, Mismatch: clash, Hold: h}, false
		}
		return AcquireResult{Verdict: Held, Hold: h}, false
	}
	w := has.wait
	if (w.Set == nil) != (len(op.With) == 0) {
		return AcquireResult{Verdict: Conflict, Mismatch: MismatchSet, Wait: w}, false
	}
	if clash := op.clash(w.Mode, w.Limit); clash != NoMismatch {
		return AcquireResult{Verdict: Conflict, Mismatch: clash, Wait: w}, false
	}
	return AcquireResult{Verdict: Queued, Wait: w}, op.Wait == Persistent && !w.Keep
}

func (op *Acquire) clash(mode Mode, limit int64) Mismatch {
	switch {
	case mode != op.Mode:
		return MismatchMode
	case limit != op.Limit:
		return MismatchLimit
	}
	return NoMismatch
}

// decide returns the result of an acquire that has no hold or wait yet and does not
// wait.
func (l *Lock) decide(mode Mode, limit int64) AcquireResult {
	switch {
	case mode == Shared && l.shared > 0 && l.Limit != limit:
		return AcquireResult{Verdict: Conflict, Mismatch: MismatchOther}
	case l.DelayID != 0 && l.Holders == 0:
		return AcquireResult{Verdict: Delayed}
	case l.DelayID != 0, l.Waiters > 0, !l.admits(mode, limit):
		return AcquireResult{Verdict: Busy}
	}
	return AcquireResult{Verdict: Held}
}

func (op *Acquire) do(e *editor, found Result) Result {
	r := found.(AcquireResult)
	if len(op.With) > 0 {
		return op.doSet(e, r)
	}
	n := e.node(op.Path)
	switch {
	case r.Verdict == Held:
		r.Hold = e.grant(&n, op.wait(n.Path, 0, nil, 0), false)
	case r.Wait != nil:
		r.Wait = e.keep(r.Wait)
	default:
		r.Wait = op.wait(n.Path, e.nextSeq(), nil, e.Now)
		e.enqueue(r.Wait, n, r.Position)
	}
	return r
}

// keep makes a wait persistent.
func (e *editor) keep(w *Wait) *Wait {
	kept := *w
	kept.Keep = true
	e.putWait(&kept)
	e.record(Kept{Wait: &kept})
	return &kept
}

// wait returns the queue position of the request at a path. A request that is
// granted at once has seq 0.
func (op *Acquire) wait(path string, seq uint64, set []string, since int64) *Wait {
	w := &Wait{Path: path, Seq: seq, Session: op.Session, Handle: op.Handle, Mode: op.Mode, Limit: op.Limit,
		DelayMS: op.DelayMS, Since: since, Set: set}
	if seq != 0 {
		w.Keep, w.Priority = op.Wait == Persistent, op.Priority
	}
	return w
}

func (e *editor) enqueue(w *Wait, n Node, position int) {
	e.putWait(w)
	e.bytes += BytesOfHandle(w.Path, w.Handle)
	q := Enqueued{Wait: w}
	if position == 1 && n.Holders > 0 {
		q.Revision = e.nextRevision()
	}
	n.Waiters++
	if w.Mode == Shared {
		n.shared++
		n.Limit = w.Limit
	}
	e.putNode(n)
	e.record(q)
}
