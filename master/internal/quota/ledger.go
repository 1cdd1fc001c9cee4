package quota

import (
	"bytes"
	"sync"

	"github.com/stoutlock/stout/replica/state"
)

// Ledger is what an office knows of the use of quotas. It is made when the
// office opens: then no call is under way, and no entry of an earlier office
// can still be applied.
//
// Its mutex guards the fields below it. No other mutex is taken while it is
// held. The state is read under it, so that the outcome of a call is in it once
// the call's reservation has ended.
type Ledger struct {
	quotas  *Quotas
	refused *Refusals
	state   func() *state.State

	mu       sync.Mutex
	sessions map[string]*account
	underway Sums         // what calls under way may add
	calls    map[call]int // copies under way of each call
}

// account is what a session has, by the changes in the log, plus what its calls
// under way may add.
type account struct {
	Sums
	keyed int // keyed calls under way
}

// call identifies the copies of one call, which share a reservation. The zero
// value is a call without copies.
type call struct {
	kind    byte
	a, b, c string
}

// Reservation is what a call under way may add. The zero value reserves
// nothing.
type Reservation struct {
	call call
	own  *account // nil if no session is charged
	cost Sums
}

// New makes the ledger of an office that opens with a state.
func New(q *Quotas, refused *Refusals, current func() *state.State) *Ledger {
	l := &Ledger{quotas: q, refused: refused, state: current, sessions: map[string]*account{}, calls: map[call]int{}}
	s := current()
	for v := range s.Sessions("") {
		own := l.open(v)
		own.SessionBytes += s.Answers(v.ID).Bytes()
	}
	for h := range s.Holds() {
		l.countClaim(h.Session, h.Path, h.Handle, 1, 0)
	}
	for w := range s.Waits() {
		l.countClaim(w.Session, w.Path, w.Handle, 1, 1)
	}
	return l
}

// open begins a session's account, unless it exists. l.mu is held.
func (l *Ledger) open(v *state.Session) *account {
	own := l.sessions[v.ID]
	if own == nil {
		own = &account{Sums: Sums{SessionBytes: v.Bytes()}}
		l.sessions[v.ID] = own
	}
	return own
}

// account returns a session's account, or nil if the session does not exist.
// The state may be ahead of the changes that the ledger has followed. l.mu is
// held.
func (l *Ledger) account(s *state.State, id string) *account {
	if own := l.sessions[id]; own != nil {
		return own
	}
	if v, lives := s.Session(id); lives {
		return l.open(v)
	}
	return nil
}

// countClaim counts a session's claims and queue positions. l.mu is held.
func (l *Ledger) countClaim(session, path, handle string, claims, waiters int64) {
	if own := l.sessions[session]; own != nil {
		own.Holds += claims
		own.Waiters += waiters
		own.SessionBytes += claims * state.BytesOfClaim(path, handle)
	}
}

// Follow applies the changes of an entry to the ledger, before any call gets
// its result.
func (l *Ledger) Follow(changes []state.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		switch c := c.(type) {
		case state.SessionOpened:
			l.open(c.Session)
		case state.SessionEnded:
			delete(l.sessions, c.Session.ID)
		case state.Granted:
			if h := c.Hold; c.Wait != nil {
				l.countClaim(h.Session, h.Path, h.Handle, 0, -1)
			} else {
				l.countClaim(h.Session, h.Path, h.Handle, 1, 0)
			}
		case state.Enqueued:
			l.countClaim(c.Wait.Session, c.Wait.Path, c.Wait.Handle, 1, 1)
		case state.Withdrawn:
			l.countClaim(c.Wait.Session, c.Wait.Path, c.Wait.Handle, -1, -1)
		case state.Released:
			l.countClaim(c.Hold.Session, c.Hold.Path, c.Hold.Handle, -1, 0)
		case state.Answered:
			if own := l.sessions[c.Session]; own != nil {
				own.SessionBytes += c.Answer.Bytes()
				if c.Forgotten != nil {
					own.SessionBytes -= c.Forgotten.Bytes()
				}
			}
		}
	}
}

// exceeds returns the first quota that more would exceed. own may be nil. l.mu
// is held.
func (l *Ledger) exceeds(s *state.State, own *account, more *Sums) *Excess {
	cell := SumsOf(s)
	settled := cell.All()
	cell.add(&l.underway, 1)
	most, wanted, used := l.quotas.All(), more.All(), cell.All()
	if own != nil {
		has := own.All()
		copy(used[:Sessions], has[:Sessions])
	}
	for k := range Kinds {
		if own == nil && !k.OfCell() {
			continue
		}
		if most[k] > 0 && wanted[k] > 0 && used[k]+wanted[k] > most[k] {
			return &Excess{k, most[k], used[k], wanted[k], k.OfCell() && settled[k]+wanted[k] <= most[k]}
		}
	}
	return nil
}

// enter counts a call in full if more is within the quotas. Further copies of
// the call need nothing. l.mu is held.
func (l *Ledger) enter(s *state.State, r Reservation, more *Sums) *Excess {
	if l.calls[r.call] == 0 {
		if e := l.exceeds(s, r.own, more); e != nil {
			return e
		}
		l.count(&r, 1)
	}
	if r.call != (call{}) {
		l.calls[r.call]++
	}
	return nil
}

func (l *Ledger) count(r *Reservation, times int64) {
	l.underway.add(&r.cost, times)
	if r.own != nil {
		r.own.add(&r.cost, times)
	}
}

// Release ends a reservation. Call it when the call's outcome is applied and
// followed, or when the call has finally failed.
func (l *Ledger) Release(r Reservation) {
	if r.cost == (Sums{}) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.call.kind == keyedCall {
		r.own.keyed--
	}
	if r.call != (call{}) {
		if l.calls[r.call]--; l.calls[r.call] > 0 {
			return
		}
		delete(l.calls, r.call)
	}
	l.count(&r, -1)
}

// Refuse counts a refusal, and returns its error.
func (l *Ledger) Refuse(e *Excess) error {
	l.refused[e.kind].Add(1)
	return e.err()
}

// Used returns what the cell has, plus what calls under way may add.
func (l *Ledger) Used() Sums {
	l.mu.Lock()
	defer l.mu.Unlock()
	used := SumsOf(l.state())
	used.add(&l.underway, 1)
	return used
}

// Claims returns how many claims a session has, including any that calls under
// way may make.
func (l *Ledger) Claims(session string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own := l.sessions[session]; own != nil {
		return own.Holds
	}
	return 0
}

// Mutex returns the ledger's mutex, for the watch that looks for hanging ones.
func (l *Ledger) Mutex() sync.Locker { return &l.mu }

// The kinds of calls that have copies.
const (
	acquireCall byte = 1 + iota
	waitingCall
	openingCall
	keyedCall
)

// Session reserves what a session needs that is about to be opened.
func (l *Ledger) Session(op *state.OpenSession) (Reservation, error) {
	r := Reservation{own: &account{}, cost: Sums{Sessions: 1, Bytes: op.Bytes(), SessionBytes: op.Bytes()}}
	more := r.cost
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state()
	if op.Key != "" {
		r.call = call{openingCall, op.Key, string(op.Digest), ""}
		if v, ok := s.SessionByKey(op.Key); ok && bytes.Equal(v.Digest, op.Digest) {
			more = Sums{}
		}
	}
	return l.reserve(s, r, &more)
}

// reserve is enter for a call that is refused if there is no room. l.mu is
// held.
func (l *Ledger) reserve(s *state.State, r Reservation, more *Sums) (Reservation, error) {
	if e := l.enter(s, r, more); e != nil {
		return Reservation{}, l.Refuse(e)
	}
	return r, nil
}

// Acquire reserves what an acquire may need. If there is room for a hold but
// not for a queue position, the call must not wait, and full is the reason.
func (l *Ledger) Acquire(op *state.Acquire) (r Reservation, full *Excess, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state()
	own := l.account(s, op.Session)
	if own == nil { // the log will find no session
		return r, nil, nil
	}
	hold, wait := s.Claim(op.Session, op.Path, op.Handle)
	r = Reservation{call: call{acquireCall, op.Session, op.Path, op.Handle}, own: own, cost: claimSums(op.Path, op.Handle)}
	more := r.cost
	if hold != nil || wait != nil {
		more = Sums{}
	}
	if op.Wait != state.NoWait {
		waiting, position := r, more
		waiting.call.kind, waiting.cost.Waiters = waitingCall, 1
		if wait == nil {
			position.Waiters = 1
		}
		if full = l.enter(s, waiting, &position); full == nil {
			return waiting, nil, nil
		}
		if more != (Sums{}) && mustWait(s, op) {
			return Reservation{}, nil, l.Refuse(full)
		}
	}
	r, err = l.reserve(s, r, &more)
	return r, full, err
}

func claimSums(path, handle string) Sums {
	n := state.BytesOfClaim(path, handle)
	return Sums{Holds: 1, Bytes: n, SessionBytes: n}
}

// mustWait reports whether an acquire would get a queue position.
func mustWait(s *state.State, op *state.Acquire) bool {
	once := *op
	once.Wait = state.NoWait
	found, _ := s.Would(&once)
	r, _ := found.(state.AcquireResult)
	return r.Verdict == state.Busy || r.Verdict == state.Delayed
}
