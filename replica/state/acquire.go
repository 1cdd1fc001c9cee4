package state

import (
	"fmt"
)

// WaitFor says what becomes of an acquire that cannot be granted at once.
type WaitFor uint8

// The choices.
const (
	NoWait         WaitFor = 0 // refuse it
	WhileConnected WaitFor = 1 // queue it; the place goes when the last waiting call does
	Persistent     WaitFor = 2 // queue it; the place stays until granted, released or the session's end
)

// Acquire asks for a lock. Who asks again for what is claimed already is told
// of the same grant or place. It comes to an AcquireResult.
type Acquire struct {
	Session string  `cbor:"1,keyasint,omitempty"`
	Path    string  `cbor:"2,keyasint,omitempty"`
	Handle  string  `cbor:"3,keyasint,omitempty"`
	Mode    Mode    `cbor:"4,keyasint,omitempty"`
	Limit   int64   `cbor:"5,keyasint,omitempty"`
	Wait    WaitFor `cbor:"6,keyasint,omitempty"`
	DelayMS int64   `cbor:"7,keyasint,omitempty"`
}

// AcquireResult is what Acquire comes to: Held, Queued, Busy, Delayed, Conflict
// or NoSession. Withdraw comes to one, too.
type AcquireResult struct {
	Verdict Verdict
	Clash   Clash
	Hold    *Hold // nil in what would change something
	Wait    *Wait // nil in what would change something
	// Position is the place of a wait that was just queued; 0 for one that was
	// there before: to find that out takes a walk (State.Position).
	Position int
}

// Enqueued says that a place in a queue was taken. It has a revision where the
// lock is held and nobody waited behind the hold: then it is contended.
type Enqueued struct {
	Revision uint64
	Wait     *Wait
}

// Kept says that a place in a queue has become a persistent one.
type Kept struct{ Wait *Wait }

func (op *Acquire) unknown() string {
	switch {
	case op.Mode > Shared:
		return fmt.Sprintf("mode %d", op.Mode)
	case op.Wait > Persistent:
		return fmt.Sprintf("wait %d", op.Wait)
	}
	return ""
}

func (op *Acquire) wellFormed() bool {
	return op.Path != "" && sound(op.Mode, op.Limit) && plain(op.Path)
}

func (op *Acquire) size() int { return 48 + len(op.Session) + len(op.Path) + len(op.Handle) }

// would is the one place where it is decided who gets a lock.
func (op *Acquire) would(s *State) (Result, bool) {
	if has, ok := s.claims.Get(claimKey{op.Session, op.Path, op.Handle}); ok {
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
	switch {
	case r.Verdict == Held:
		return r, true
	case r.Verdict == Conflict, op.Wait == NoWait:
		return r, false
	}
	return AcquireResult{Verdict: Queued, Position: n.Waiters + 1}, true
}

// again is what becomes of an acquire for what is claimed already: the same
// grant, or its place. Nothing changes but that a place may become a persistent
// one.
func (op *Acquire) again(has claim) (Result, bool) {
	if h := has.hold; h != nil {
		if clash := op.clash(h.Mode, h.Limit); clash != NoClash {
			return AcquireResult{Verdict: Conflict, Clash: clash, Hold: h}, false
		}
		return AcquireResult{Verdict: Held, Hold: h}, false
	}
	w := has.wait
	if clash := op.clash(w.Mode, w.Limit); clash != NoClash {
		return AcquireResult{Verdict: Conflict, Clash: clash, Wait: w}, false
	}
	return AcquireResult{Verdict: Queued, Wait: w}, op.Wait == Persistent && !w.Keep
}

func (op *Acquire) clash(mode Mode, limit int64) Clash {
	switch {
	case mode != op.Mode:
		return ClashMode
	case limit != op.Limit:
		return ClashLimit
	}
	return NoClash
}

// decide is what an acquire comes to that has no claim yet and does not wait.
func (l *Lock) decide(mode Mode, limit int64) AcquireResult {
	switch {
	case mode == Shared && l.shared > 0 && l.Limit != limit:
		return AcquireResult{Verdict: Conflict, Clash: ClashOther}
	case l.DelayID != 0 && l.Holders == 0:
		return AcquireResult{Verdict: Delayed}
	case l.DelayID != 0, l.Waiters > 0, !l.admits(mode, limit):
		return AcquireResult{Verdict: Busy}
	}
	return AcquireResult{Verdict: Held}
}

func (op *Acquire) do(e *editor, found Result) Result {
	r := found.(AcquireResult)
	n := e.node(op.Path)
	switch {
	case r.Verdict == Held:
		w := &Wait{Path: n.Path, Session: op.Session, Handle: op.Handle, Mode: op.Mode, Limit: op.Limit, DelayMS: op.DelayMS}
		r.Hold = e.grant(&n, w, false)
	case r.Wait != nil:
		kept := *r.Wait
		kept.Keep = true
		r.Wait = &kept
		e.putWait(r.Wait)
		e.record(Kept{Wait: r.Wait})
	default:
		r.Wait = e.enqueue(op, n)
	}
	return r
}

func (e *editor) enqueue(op *Acquire, n Node) *Wait {
	w := &Wait{Path: n.Path, Seq: e.nextSeq(), Session: op.Session, Handle: op.Handle,
		Mode: op.Mode, Limit: op.Limit, DelayMS: op.DelayMS, Keep: op.Wait == Persistent, Since: e.Now}
	e.putWait(w)
	e.bytes += BytesOfClaim(w.Path, w.Handle)
	q := Enqueued{Wait: w}
	if n.Waiters == 0 && n.Holders > 0 {
		q.Revision = e.nextRevision()
	}
	n.Waiters++
	if w.Mode == Shared {
		n.shared++
		n.Limit = w.Limit
	}
	e.putNode(n)
	e.record(q)
	return w
}
