package state

import (
	"encoding/binary"
	"iter"
	"strings"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// incarnationShift places the incarnation above the counter in a token: a
// restore from a backup raises the incarnation, so tokens never go back.
const incarnationShift = 43

// tokenBits is what a token has room in, so that every JSON reader can hold it.
const tokenBits = 53

// Office is the term of office that the log last opened.
type Office struct {
	Open   bool   `cbor:"1,keyasint,omitempty"`
	Term   uint64 `cbor:"2,keyasint,omitempty"` // raft term in which it was opened
	Master string `cbor:"3,keyasint,omitempty"` // id of its replica
	// LeaseMS is the longest lease of any batch accepted since it opened: what
	// a successor has to wait out.
	LeaseMS int64 `cbor:"4,keyasint,omitempty"`
}

// Session is an open session. How long it still lives is known to the master
// only. It is immutable.
type Session struct {
	ID        string            `cbor:"1,keyasint"`
	Name      string            `cbor:"2,keyasint,omitempty"`
	TTLMS     int64             `cbor:"3,keyasint"`
	CreatedAt int64             `cbor:"4,keyasint"` // Unix nanoseconds
	Meta      map[string]string `cbor:"5,keyasint,omitempty"`
	Key       string            `cbor:"6,keyasint,omitempty"`
	Digest    []byte            `cbor:"7,keyasint,omitempty"`
}

// Lock is a path that is held, waited for or delayed. A path without any of
// these has no Lock. It is immutable.
type Lock struct {
	Path    string
	Mode    Mode // of the holders; 0 without one
	Holders int
	Waiters int
	// Limit is that of the shared holders and shared waiters, which all agree.
	Limit  int64
	shared int // shared holders + shared waiters
	// DelayID numbers the lock-delay in force, 0 = none; DelayMS is its length.
	DelayID uint64
	DelayMS int64
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
	// WaitSeq is the place in the queue that it came from, 0 if granted at once.
	WaitSeq uint64 `cbor:"9,keyasint,omitempty"`
	// EventSeq numbers the event that tells its session of it: set where the
	// place in the queue was a kept one, 0 otherwise.
	EventSeq uint64 `cbor:"10,keyasint,omitempty"`
}

// Wait is one place in a queue. It is immutable.
type Wait struct {
	Path    string `cbor:"1,keyasint"`
	Seq     uint64 `cbor:"2,keyasint"` // unique in the cell; orders the queue
	Session string `cbor:"3,keyasint"`
	Handle  string `cbor:"4,keyasint,omitempty"`
	Mode    Mode   `cbor:"5,keyasint"`
	Limit   int64  `cbor:"6,keyasint,omitempty"`
	DelayMS int64  `cbor:"7,keyasint,omitempty"`
	Keep    bool   `cbor:"8,keyasint,omitempty"`
}

// claim is what a (session, path, handle) has: a grant or a place in the queue.
type claim struct {
	token uint64
	seq   uint64
}

// header is the part of a state that is not in a tree.
type header struct {
	Index       uint64 `cbor:"1,keyasint"` // of the last entry applied
	Term        uint64 `cbor:"2,keyasint"` // raft term of that entry
	Epoch       uint64 `cbor:"3,keyasint"` // raised by one by every office
	Office      Office `cbor:"4,keyasint"`
	Incarnation uint64 `cbor:"5,keyasint,omitempty"`
	Counter     uint64 `cbor:"6,keyasint"` // of tokens, within the incarnation
	Seq         uint64 `cbor:"7,keyasint"` // of waits, delays and events
	Now         int64  `cbor:"8,keyasint"` // highest command time seen
}

// State is the whole replicated state after some entry of the log. Make the
// first one with New.
type State struct {
	header
	sessions *iradix.Tree[*Session] // id
	keys     *iradix.Tree[string]   // idempotency key → session id
	locks    *iradix.Tree[*Lock]    // path
	holds    *iradix.Tree[*Hold]    // path, NUL, token
	queue    *iradix.Tree[*Wait]    // path, NUL, seq
	claims   *iradix.Tree[claim]    // session, NUL, path, NUL, handle
}

// New is the state before the first entry.
func New() *State {
	return &State{
		sessions: iradix.New[*Session](),
		keys:     iradix.New[string](),
		locks:    iradix.New[*Lock](),
		holds:    iradix.New[*Hold](),
		queue:    iradix.New[*Wait](),
		claims:   iradix.New[claim](),
	}
}

// numbered is the key of the n-th thing at a path. NUL sorts before every byte
// that a path can hold, so the keys of one path stand together.
func numbered(path string, n uint64) []byte {
	k := make([]byte, 0, len(path)+9)
	k = append(append(k, path...), 0)
	return binary.BigEndian.AppendUint64(k, n)
}

func at(path string) []byte { return append([]byte(path), 0) }

func claimKey(session, path, handle string) []byte {
	k := make([]byte, 0, len(session)+len(path)+len(handle)+2)
	k = append(append(k, session...), 0)
	k = append(append(k, path...), 0)
	return append(k, handle...)
}

// SessionCount is the number of open sessions.
func (s *State) SessionCount() int { return s.sessions.Len() }

// LockCount is the number of locks that are held, waited for or delayed.
func (s *State) LockCount() int { return s.locks.Len() }

// HoldCount is the number of grants held.
func (s *State) HoldCount() int { return s.holds.Len() }

// WaitCount is the number of places in all queues.
func (s *State) WaitCount() int { return s.queue.Len() }

// Session finds an open session.
func (s *State) Session(id string) (*Session, bool) { return s.sessions.Get([]byte(id)) }

// SessionByKey finds the session that was opened with an idempotency key.
func (s *State) SessionByKey(key string) (*Session, bool) {
	id, ok := s.keys.Get([]byte(key))
	if !ok {
		return nil, false
	}
	return s.Session(id)
}

// Lock finds the lock at path; false where it is free.
func (s *State) Lock(path string) (*Lock, bool) { return s.locks.Get([]byte(path)) }

// Claim is what the pair (session, handle) has at path: a hold, a wait, or
// neither. It never has both.
func (s *State) Claim(session, path, handle string) (*Hold, *Wait) {
	c, ok := s.claims.Get(claimKey(session, path, handle))
	if !ok {
		return nil, nil
	}
	return s.resolve(path, c)
}

func (s *State) resolve(path string, c claim) (*Hold, *Wait) {
	if c.token != 0 {
		h, _ := s.holds.Get(numbered(path, c.token))
		return h, nil
	}
	w, _ := s.queue.Get(numbered(path, c.seq))
	return nil, w
}

// HoldByToken finds the grant with that token at path.
func (s *State) HoldByToken(path string, token uint64) (*Hold, bool) {
	return s.holds.Get(numbered(path, token))
}

// Sessions walks the open sessions whose id sorts after the given one.
func (s *State) Sessions(after string) iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		it := s.sessions.Root().Iterator()
		it.SeekLowerBound([]byte(after))
		for _, v, ok := it.Next(); ok; _, v, ok = it.Next() {
			if v.ID > after && !yield(v) {
				return
			}
		}
	}
}

// Locks walks the locks whose path has the given plain string prefix and sorts
// after the given path, in bytewise order.
func (s *State) Locks(prefix, after string) iter.Seq[*Lock] {
	return func(yield func(*Lock) bool) {
		it := s.locks.Root().Iterator()
		it.SeekLowerBound([]byte(max(prefix, after)))
		for _, v, ok := it.Next(); ok; _, v, ok = it.Next() {
			if v.Path > prefix && !strings.HasPrefix(v.Path, prefix) {
				return
			}
			if v.Path > after && !yield(v) {
				return
			}
		}
	}
}

// Holders walks the grants of one lock in the order in which they were made.
func (s *State) Holders(path string) iter.Seq[*Hold] { return under(s.holds.Root(), at(path)) }

// Queue walks the waits of one lock, next one first.
func (s *State) Queue(path string) iter.Seq[*Wait] { return under(s.queue.Root(), at(path)) }

// Holds walks all grants of the cell.
func (s *State) Holds() iter.Seq[*Hold] { return under(s.holds.Root(), nil) }

// Waits walks all places in all queues.
func (s *State) Waits() iter.Seq[*Wait] { return under(s.queue.Root(), nil) }

// Claims walks what one session holds and waits for, in path order; one of the
// two is nil each time.
func (s *State) Claims(session string) iter.Seq2[*Hold, *Wait] {
	return func(yield func(*Hold, *Wait) bool) {
		prefix := at(session)
		it := s.claims.Root().Iterator()
		it.SeekPrefix(prefix)
		for k, c, ok := it.Next(); ok; k, c, ok = it.Next() {
			path, _, _ := strings.Cut(string(k[len(prefix):]), "\x00")
			if !yield(s.resolve(path, c)) {
				return
			}
		}
	}
}

// Position is the place of a wait in its queue, 1 = next, and 0 for one that is
// not there. It walks the queue up to that place.
func (s *State) Position(w *Wait) int {
	n := 0
	for other := range s.Queue(w.Path) {
		n++
		if other.Seq == w.Seq {
			return n
		}
	}
	return 0
}

func under[V any](root *iradix.Node[V], prefix []byte) iter.Seq[V] {
	return func(yield func(V) bool) {
		it := root.Iterator()
		it.SeekPrefix(prefix)
		for _, v, ok := it.Next(); ok; _, v, ok = it.Next() {
			if !yield(v) {
				return
			}
		}
	}
}
