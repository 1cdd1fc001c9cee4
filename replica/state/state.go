package state

import (
	"cmp"
	"iter"
	"strings"

	"github.com/stoutlock/stout/replica/state/access"
	"github.com/stoutlock/stout/replica/state/internal/btree"
)

// tokenBits bounds tokens and revisions, so that every JSON reader can
// represent them.
const tokenBits = 53

// holdOrWait is what a handle of a session has at a path: a hold or a queue position.
type holdOrWait struct {
	hold *Hold
	wait *Wait
}

// header is the part of a state outside the trees.
type header struct {
	Index   uint64 `cbor:"1,keyasint"` // of the last entry applied
	Term    uint64 `cbor:"2,keyasint"` // raft term of that entry
	Epoch   uint64 `cbor:"3,keyasint"` // each office raises it by one
	Office  Office `cbor:"4,keyasint"`
	Counter uint64 `cbor:"6,keyasint"` // the last fencing token given; number 5 is no longer used
	Seq     uint64 `cbor:"7,keyasint"` // the last number given to a wait, a lock-delay or an event
	Now     int64  `cbor:"8,keyasint"` // highest command time so far
	// Members is the table that a master noted last. It is never changed in
	// place.
	Members  []Member `cbor:"9,keyasint,omitempty"`
	Level    uint64   `cbor:"10,keyasint"`           // see level.go
	Revision uint64   `cbor:"11,keyasint"`           // of the last change with a revision; see Change
	AccessOn bool     `cbor:"12,keyasint,omitempty"` // access control is on; see access.go
}

// State is the whole replicated state after an entry of the log. New returns
// the first one.
type State struct {
	header
	sessions btree.Tree[string, *Session] // by id
	keys     btree.Tree[string, *Session] // by idempotency key: sessions that have one
	nodes    btree.Tree[string, *Node]    // by path
	holds    btree.Tree[numbered, *Hold]  // by path and token
	queue    btree.Tree[numbered, *Wait]  // by path and order
	handles  btree.Tree[HandleKey, holdOrWait]

	ephemeral btree.Tree[owned, *File]     // by session and path: ephemeral files
	answers   btree.Tree[string, *Answers] // by session

	policy *access.Policy
	tokens btree.Tree[string, *Token] // by id
	sums   btree.Tree[string, *Token] // by the SHA-256 of the secret

	locks, files int   // nodes with a lock that is not free, and nodes with a file
	content      int64 // bytes of all file contents
	bytes        int64 // estimated memory, without the policy
}

// numbered is the key of the n-th thing at a path.
type numbered struct {
	path string
	n    uint64
}

func (k numbered) compare(path string, n uint64) int {
	if c := strings.Compare(k.path, path); c != 0 {
		return c
	}
	return cmp.Compare(k.n, n)
}

// HandleKey names a handle of a session at a path. It has at most one hold or
// queue position.
type HandleKey struct{ Session, Path, Handle string }

// In returns the hold or the wait of the handle in a state, or nil for both.
func (k HandleKey) In(s *State) (*Hold, *Wait) {
	c, _ := s.handles.Get(k)
	return c.hold, c.wait
}

func (h *Hold) HandleKey() HandleKey { return HandleKey{h.Session, h.Path, h.Handle} }

func (w *Wait) HandleKey() HandleKey { return HandleKey{w.Session, w.Path, w.Handle} }

func (k HandleKey) compare(c holdOrWait) int {
	other := c.key()
	if c := strings.Compare(k.Session, other.Session); c != 0 {
		return c
	}
	if c := strings.Compare(k.Path, other.Path); c != 0 {
		return c
	}
	return strings.Compare(k.Handle, other.Handle)
}

func (c holdOrWait) key() HandleKey {
	if c.hold != nil {
		return c.hold.HandleKey()
	}
	return c.wait.HandleKey()
}

// New returns the state before the first entry.
func New() *State {
	return &State{
		header:   header{Level: 1},
		sessions: btree.New(func(id string, v *Session) int { return strings.Compare(id, v.ID) }),
		keys:     btree.New(func(key string, v *Session) int { return strings.Compare(key, v.Key) }),
		nodes:    btree.New(func(path string, v *Node) int { return strings.Compare(path, v.Path) }),
		holds:    btree.New(func(k numbered, v *Hold) int { return k.compare(v.Path, v.Token) }),
		queue:    btree.New(func(k numbered, v *Wait) int { return k.compare(v.Path, v.order()) }),
		handles:  btree.New(HandleKey.compare),

		ephemeral: btree.New(owned.compare),
		answers:   btree.New(func(session string, v *Answers) int { return strings.Compare(session, v.session) }),

		policy: access.New(),
		tokens: btree.New(func(id string, t *Token) int { return strings.Compare(id, t.ID) }),
		sums:   btree.New(func(sum string, t *Token) int { return strings.Compare(sum, string(t.Sum)) }),
	}
}

// SessionCount returns the number of open sessions.
func (s *State) SessionCount() int { return s.sessions.Len() }

// LockCount returns the number of locks that are held, waited for or delayed.
func (s *State) LockCount() int { return s.locks }

// HoldCount returns the number of grants held.
func (s *State) HoldCount() int { return s.holds.Len() }

// WaitCount returns the number of queue positions in all queues.
func (s *State) WaitCount() int { return s.queue.Len() }

// Session finds an open session.
func (s *State) Session(id string) (*Session, bool) { return s.sessions.Get(id) }

// SessionByKey finds the session opened with an idempotency key.
func (s *State) SessionByKey(key string) (*Session, bool) { return s.keys.Get(key) }

// Lock finds the node of the lock at path; it returns false if the lock is
// free.
func (s *State) Lock(path string) (*Node, bool) {
	n, ok := s.nodes.Get(path)
	if !ok || n.Free() {
		return nil, false
	}
	return n, true
}

// HoldOrWait returns what the pair (session, handle) has at path: a hold, a wait, or
// neither. It never has both.
func (s *State) HoldOrWait(session, path, handle string) (*Hold, *Wait) {
	return HandleKey{session, path, handle}.In(s)
}

// HoldByToken finds the grant with a token at path.
func (s *State) HoldByToken(path string, token uint64) (*Hold, bool) {
	return s.holds.Get(numbered{path, token})
}

// Sessions walks the open sessions with ids after the given one.
func (s *State) Sessions(after string) iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		for v := range s.sessions.From(after) {
			if v.ID > after && !yield(v) {
				return
			}
		}
	}
}

// Locks walks the nodes of the locks that are not free. Their paths have the
// given string prefix and sort after the given path, in bytewise order.
func (s *State) Locks(prefix, after string) iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for n := range s.nodesBelow(prefix, after) {
			if !n.Free() && !yield(n) {
				return
			}
		}
	}
}

// nodesBelow walks the nodes with paths that have the given prefix and sort
// after the given path.
func (s *State) nodesBelow(prefix, after string) iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for n := range s.nodes.From(max(prefix, after)) {
			if n.Path > prefix && !strings.HasPrefix(n.Path, prefix) {
				return
			}
			if n.Path > after && !yield(n) {
				return
			}
		}
	}
}

// Holders walks the grants of one lock in the order in which they were made.
func (s *State) Holders(path string) iter.Seq[*Hold] {
	return while(s.holds.From(numbered{path, 0}), func(v *Hold) bool { return v.Path == path })
}

// Queue walks the waits of one lock, next one first.
func (s *State) Queue(path string) iter.Seq[*Wait] {
	return while(s.queue.From(numbered{path, 0}), func(v *Wait) bool { return v.Path == path })
}

// Holds walks all grants of the cell.
func (s *State) Holds() iter.Seq[*Hold] { return s.holds.All() }

// Waits walks all queue positions of the cell.
func (s *State) Waits() iter.Seq[*Wait] { return s.queue.All() }

// WaitsBelow walks the waits for the lock at a path and for the locks below it;
// "/" means all.
func (s *State) WaitsBelow(path string) iter.Seq[*Wait] {
	if path == "/" {
		return s.Waits()
	}
	below := path + "/"
	return func(yield func(*Wait) bool) {
		for w := range s.Queue(path) {
			if !yield(w) {
				return
			}
		}
		while(s.queue.From(numbered{below, 0}), func(w *Wait) bool { return strings.HasPrefix(w.Path, below) })(yield)
	}
}

// HoldsAndWaits walks the holds and waits of one session in path order. In each pair,
// either the hold or the wait is nil.
func (s *State) HoldsAndWaits(session string) iter.Seq2[*Hold, *Wait] {
	return func(yield func(*Hold, *Wait) bool) {
		for c := range s.handles.From(HandleKey{Session: session}) {
			if c.key().Session != session || !yield(c.hold, c.wait) {
				return
			}
		}
	}
}

// Position returns a wait's queue position: 1 = next, 0 if it is not in the
// queue. For a set, it is the largest position in any of its queues. Position
// walks each queue up to the wait.
func (s *State) Position(w *Wait) (last int) {
	for part := range s.parts(w) {
		n := 0
		for other := range s.Queue(part.Path) {
			n++
			if other.Seq == w.Seq {
				last = max(last, n)
				break
			}
		}
	}
	return last
}

// while walks up to the first value that is not wanted.
func while[V any](walk iter.Seq[V], wanted func(V) bool) iter.Seq[V] {
	return func(yield func(V) bool) {
		for v := range walk {
			if !wanted(v) || !yield(v) {
				return
			}
		}
	}
}
