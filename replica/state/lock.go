package state

import (
	"iter"
	"slices"
)

// Mode is the mode in which a lock is held.
type Mode uint8

// The numbers are written to disk.
const (
	Exclusive Mode = 1
	Shared    Mode = 2
)

func (m Mode) String() string {
	if m == Shared {
		return "shared"
	}
	return "exclusive"
}

// Hold is one grant. It is immutable.
type Hold struct {
	Path      string `cbor:"1,keyasint"`
	Session   string `cbor:"2,keyasint"`
	Handle    string `cbor:"3,keyasint,omitempty"`
	Mode      Mode   `cbor:"4,keyasint"`
	Limit     int64  `cbor:"5,keyasint,omitempty"`
	Token     uint64 `cbor:"6,keyasint"`
	GrantedAt int64  `cbor:"7,keyasint"` // Unix nanoseconds; never goes back within a cell
	DelayMS   int64  `cbor:"8,keyasint,omitempty"`
	// WaitSeq is the number of the wait that was granted, 0 if granted at once.
	WaitSeq uint64 `cbor:"9,keyasint,omitempty"`
	// EventSeq numbers the event that reports the grant to its session. It is 0
	// unless the queue position was persistent.
	EventSeq uint64 `cbor:"10,keyasint,omitempty"`
	// Key is set if a KeyLock acquired the lock, from levelKeys on.
	Key KeyEnd `cbor:"11,keyasint,omitempty"`
}

// Wait is one queue position. It is immutable.
type Wait struct {
	Path    string `cbor:"1,keyasint"`
	Seq     uint64 `cbor:"2,keyasint"` // unique in the cell; orders the waits of one priority
	Session string `cbor:"3,keyasint"`
	Handle  string `cbor:"4,keyasint,omitempty"`
	Mode    Mode   `cbor:"5,keyasint"`
	Limit   int64  `cbor:"6,keyasint,omitempty"`
	DelayMS int64  `cbor:"7,keyasint,omitempty"`
	Keep    bool   `cbor:"8,keyasint,omitempty"`
	// Since is when the wait began, in Unix nanoseconds; only shown to people.
	Since int64 `cbor:"9,keyasint"`
	// Priority puts the wait before those of lower priority.
	Priority uint8 `cbor:"10,keyasint,omitempty"`
	// Set lists the paths of a wait for several locks; nil for one lock. Each
	// path has such a wait, all with one Seq. They are granted and end together.
	Set []string `cbor:"11,keyasint,omitempty"`
}

// MaxPriority is the highest priority of a wait; the lowest is 0.
const MaxPriority = 100

// order sorts the waits of a queue: by priority, then first come, first served.
// No cell numbers 2^56 waits.
func (w *Wait) order() uint64 { return uint64(MaxPriority-w.Priority)<<56 | w.Seq }

// Granted reports that a lock has a new holder.
type Granted struct {
	Revision uint64
	Hold     *Hold
	Wait     *Wait // the queue position that was granted; nil if granted at once
}

// Withdrawn reports that a queue position ended without a grant.
type Withdrawn struct{ Wait *Wait }

// Released reports that a grant has ended.
type Released struct {
	Revision uint64
	Hold     *Hold
	Reason   Reason
	Ending
}

// Ending has more about how something ended. It is only shown to people.
type Ending struct {
	At       int64  // Unix nanoseconds; never goes back within a cell
	By       string // principal of the command; empty if unknown
	SilentMS int64  // of an expired session: see ExpireSession.SilentMS
}

// Reason is why a grant or a file ended.
type Reason uint8

// Values of Reason.
const (
	GivenBack Reason = 1 // by a release, or because no caller learned of the grant
	Closed    Reason = 2 // its session was closed
	Expired   Reason = 3 // its session expired
	Deleted   Reason = 4 // a file: by a call
	Forced    Reason = 5 // a grant: released by a principal other than its session's
)

func (r Reason) String() string {
	return [...]string{"", "given-back", "closed", "expired", "deleted", "forced"}[r]
}

// sound reports whether a lock can be held in this mode with this limit.
func sound(mode Mode, limit int64) bool {
	return mode == Exclusive && limit == 0 || mode == Shared && limit >= 0
}

// admits reports whether the present holders leave room for another.
func (l *Lock) admits(mode Mode, limit int64) bool {
	if l.Holders == 0 {
		return true
	}
	return mode == Shared && l.Mode == Shared && (limit == 0 || int64(l.Holders) < limit)
}

// grant makes w a holder of n and gives it the next token. Tokens are made only
// here. queued reports whether w comes from the queue.
func (e *editor) grant(n *Node, w *Wait, queued bool) *Hold {
	e.Counter++
	h := &Hold{Path: w.Path, Session: w.Session, Handle: w.Handle, Mode: w.Mode, Limit: w.Limit,
		Token: e.Counter, GrantedAt: e.Now, DelayMS: w.DelayMS, WaitSeq: w.Seq}
	if w.Keep {
		h.EventSeq = e.nextSeq()
	}
	e.holds.Put(numbered{h.Path, h.Token}, h)
	e.handles.Put(h.HandleKey(), holdOrWait{hold: h})
	n.Holders++
	n.Mode = h.Mode
	if h.Mode == Shared {
		n.shared++
		n.Limit = h.Limit
	}
	e.putNode(*n)
	g := Granted{Revision: e.nextRevision(), Hold: h}
	if queued {
		g.Wait = w
	} else {
		e.bytes += BytesOfHandle(h.Path, h.Handle)
	}
	e.record(g)
	return h
}

// settle grants the lock to the head of the queue, repeatedly, while it admits
// the head. It must be called after everything that may have made room. If the
// session's principal may no longer lock there, the wait ends without a grant:
// the right may have just been revoked, with Expel still in progress.
func (e *editor) settle(path string) {
	others := e.settleOne(path, nil)
	for len(others) > 0 {
		path, others = others[0], others[1:]
		others = e.settleOne(path, others)
	}
}

// settleOne settles one lock. If the head was a set, the other locks of the set
// must be settled, too: settleOne appends them to others.
func (e *editor) settleOne(path string, others []string) []string {
	n := e.node(path)
	for n.Waiters > 0 {
		w := e.next(path)
		switch {
		case !e.admitsHead(&n, w):
			return others
		case w.Set != nil:
			e.grantSet(w)
			for _, other := range w.Set {
				if other != path && !slices.Contains(others, other) {
					others = append(others, other)
				}
			}
			n = e.node(path)
		case e.mayLock(w):
			e.unqueue(&n, w)
			e.grant(&n, w, true)
		default:
			e.expel(w)
			n = e.node(path)
		}
	}
	return others
}

// grantSet grants the locks of a set that all admit it, or ends its wait if the
// principal may not lock one of them.
func (e *editor) grantSet(w *Wait) {
	parts := slices.Collect(e.parts(w))
	barred := slices.IndexFunc(parts, func(part *Wait) bool { return !e.mayLock(part) })
	if barred >= 0 {
		e.expel(parts[barred])
		return
	}
	for _, part := range parts {
		n := e.node(part.Path)
		e.unqueue(&n, part)
		e.grant(&n, part, true)
	}
}

// settleAll settles every lock of an ended wait.
func (e *editor) settleAll(w *Wait) {
	if w.Set == nil {
		e.settle(w.Path)
	}
	for _, path := range w.Set {
		e.settle(path)
	}
}

// admitsHead reports whether the head of the queue at n can be granted. A set
// must also be the head of the queues at its other paths, and be admitted there.
func (s *State) admitsHead(n *Node, w *Wait) bool {
	if n.DelayID != 0 || !n.admits(w.Mode, w.Limit) {
		return false
	}
	for _, path := range w.Set {
		other, _ := s.nodes.Get(path)
		if other.DelayID != 0 || !other.admits(w.Mode, w.Limit) || s.next(path).Seq != w.Seq {
			return false
		}
	}
	return true
}

// parts walks the waits of a set, or w alone.
func (s *State) parts(w *Wait) iter.Seq[*Wait] {
	return func(yield func(*Wait) bool) {
		if w.Set == nil {
			yield(w)
			return
		}
		for _, path := range w.Set {
			if c, _ := s.handles.Get(HandleKey{w.Session, path, w.Handle}); !yield(c.wait) {
				return
			}
		}
	}
}

// next returns the head of a queue that is not empty.
func (s *State) next(path string) (w *Wait) {
	for w = range s.Queue(path) {
		break
	}
	return w
}

// putWait stores a wait, also by its handle.
func (e *editor) putWait(w *Wait) {
	e.queue.Put(numbered{w.Path, w.order()}, w)
	e.handles.Put(w.HandleKey(), holdOrWait{wait: w})
}

// unqueue removes w from the queue; the caller removes its handle.
func (e *editor) unqueue(n *Node, w *Wait) {
	e.queue.Delete(numbered{w.Path, w.order()})
	n.Waiters--
	if w.Mode == Shared {
		n.shared--
	}
}

// dropWait removes a wait with all of its set.
func (e *editor) dropWait(w *Wait) {
	if w.Set == nil {
		e.dropPart(w)
		return
	}
	for _, part := range slices.Collect(e.parts(w)) {
		e.dropPart(part)
	}
}

// dropPart removes the wait for one lock.
func (e *editor) dropPart(w *Wait) {
	n := e.node(w.Path)
	e.unqueue(&n, w)
	e.dropHandle(w.HandleKey())
	e.putNode(n)
	e.record(Withdrawn{Wait: w})
}

func (e *editor) dropHandle(k HandleKey) {
	e.handles.Delete(k)
	e.bytes -= BytesOfHandle(k.Path, k.Handle)
}

// dropHold ends a hold. If it is a hold of a key, dropHold also changes or
// deletes the key's file.
func (e *editor) dropHold(h *Hold, why Reason) {
	e.removeHold(h, why)
	e.endKey(h, why)
}

// removeHold ends a hold and leaves the file as it is.
func (e *editor) removeHold(h *Hold, why Reason) {
	e.holds.Delete(numbered{h.Path, h.Token})
	e.dropHandle(h.HandleKey())
	n := e.node(h.Path)
	n.Holders--
	if h.Mode == Shared {
		n.shared--
	}
	e.putNode(n)
	e.record(Released{Revision: e.nextRevision(), Hold: h, Reason: why, Ending: e.ending()})
}

// ending describes an end that the present command causes.
func (e *editor) ending() Ending {
	return Ending{At: e.Now, By: e.caller, SilentMS: e.silentMS}
}
