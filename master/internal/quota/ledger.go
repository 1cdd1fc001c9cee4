package quota

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/stoutlock/stout/replica/state"
)

// Ledger is what an office knows of the use of quotas. It is made when the
// office opens: then no call is under way, and no entry of an earlier office
// can still be applied.
//
// Its mutex guards the fields below it. No other mutex is taken while it is
// held. The state is read while it is held. So a state that is read after the
// end of a call's reservation has the call's outcome.
type Ledger struct {
	quotas  *Quotas
	refused *Refusals
	state   func() *state.State

	mu       sync.Mutex
	sessions map[string]*account
	owners   map[string]*owner // by principal, "" for anonymous; none without a use
	underway Sums              // what calls under way may add
	calls    map[call]int      // copies under way of each call
}

// account is what a session has, without the memory of its losses. A repeated
// acquire is never refused, even if its first hold was lost and the loss takes
// memory.
type account struct {
	use
	owner *owner
	keyed int // keyed calls under way
}

// use is what a session or a principal has.
type use struct {
	has Sums // by the changes in the log
	may Sums // in addition by calls under way
}

// at returns the whole use.
func (u *use) at() Sums {
	all := u.has
	all.add(&u.may, 1)
	return all
}

// call identifies the copies of one call, which share a reservation. The zero
// value is a call without copies.
type call struct {
	kind    byte
	a, b, c string
}

// charge is what a call needs. more is its need in addition to the state. files
// is the writer's need in addition to the files that it wrote last.
type charge struct{ more, files Sums }

// Reservation is what a call under way may add. The zero value reserves
// nothing.
type Reservation struct {
	call   call
	own    *account // nil if no session is charged
	writer *owner   // nil if no file is written
	cost   Sums
}

// New makes the ledger of an office that opens with a state.
func New(q *Quotas, refused *Refusals, current func() *state.State) *Ledger {
	l := &Ledger{quotas: q, refused: refused, state: current, sessions: map[string]*account{}, owners: map[string]*owner{}, calls: map[call]int{}}
	s := current()
	for v := range s.Sessions("") {
		l.countBytes(l.open(v), s.Answers(v.ID).Bytes())
	}
	for h := range s.Holds() {
		l.countHandle(h.Session, h.Path, h.Handle, 1, 0)
	}
	for w := range s.Waits() {
		l.countHandle(w.Session, w.Path, w.Handle, 1, 1)
	}
	for f := range s.Files("", "") {
		l.countFile(f.Principal, f.Path, f.Size, 1)
	}
	return l
}

// open begins a session's account, unless it exists. l.mu is held.
func (l *Ledger) open(v *state.Session) *account {
	own := l.sessions[v.ID]
	if own == nil {
		own = &account{use: use{has: Sums{Sessions: 1, SessionBytes: v.OwnBytes()}}, owner: l.owner(v.Principal)}
		l.sessions[v.ID] = own
		l.move(own.owner, own, 1)
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

// countHandle counts a session's handles and queue positions. l.mu is held.
func (l *Ledger) countHandle(session, path, handle string, handles, waiters int64) {
	if own := l.sessions[session]; own != nil {
		one := Sums{Holds: handles, Waiters: waiters, SessionBytes: handles * state.BytesOfHandle(path, handle)}
		own.has.add(&one, 1)
		own.owner.add(one.ofSession(), 1)
	}
}

// countBytes counts bytes of a session. l.mu is held.
func (l *Ledger) countBytes(own *account, bytes int64) {
	own.has.SessionBytes += bytes
	own.owner.has.Bytes += bytes
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
			l.closed(c.Session.ID)
		case state.SessionAdopted:
			l.adopted(c.Session)
		case state.FileChanged:
			if c.File.Generation > 1 {
				l.countFile(c.OldPrincipal, c.File.Path, c.OldSize, -1)
			}
			l.countFile(c.File.Principal, c.File.Path, c.File.Size, 1)
		case state.FileDeleted:
			l.countFile(c.File.Principal, c.File.Path, c.File.Size, -1)
		case state.Granted:
			if h := c.Hold; c.Wait != nil {
				l.countHandle(h.Session, h.Path, h.Handle, 0, -1)
			} else {
				l.countHandle(h.Session, h.Path, h.Handle, 1, 0)
			}
		case state.Enqueued:
			l.countHandle(c.Wait.Session, c.Wait.Path, c.Wait.Handle, 1, 1)
		case state.Withdrawn:
			l.countHandle(c.Wait.Session, c.Wait.Path, c.Wait.Handle, -1, -1)
		case state.Released:
			l.countHandle(c.Hold.Session, c.Hold.Path, c.Hold.Handle, -1, 0)
		case state.Answered:
			if own := l.sessions[c.Session]; own != nil {
				l.countBytes(own, c.Answer.Bytes())
				if c.Forgotten != nil {
					l.countBytes(own, -c.Forgotten.Bytes())
				}
			}
		}
	}
}

// exceeds returns the first quota that a call would exceed. l.mu is held.
func (l *Ledger) exceeds(s *state.State, r *Reservation, need *charge) *Excess {
	most, wanted := l.quotas.All(), need.more.All()
	if r.own != nil {
		at := r.own.at()
		used := at.All()
		for k := range PrincipalSessions {
			if most[k] > 0 && wanted[k] > 0 && used[k]+wanted[k] > most[k] {
				return &Excess{kind: k, most: most[k], used: used[k], wanted: wanted[k]}
			}
		}
	}
	if s.AccessOn && s.Policy().QuotaCount() > 0 {
		if e := r.exceedsOfPrincipal(s.Policy(), need); e != nil {
			return e
		}
	}
	cell := SumsOf(s)
	settled := cell.All()
	cell.add(&l.underway, 1)
	used := cell.All()
	for k := Sessions; k < Kinds; k++ {
		if most[k] > 0 && wanted[k] > 0 && used[k]+wanted[k] > most[k] {
			return &Excess{kind: k, most: most[k], used: used[k], wanted: wanted[k], soon: settled[k]+wanted[k] <= most[k]}
		}
	}
	return nil
}

// enter counts a call in full if its need is within the quotas. Further copies of
// the call need nothing. l.mu is held.
func (l *Ledger) enter(s *state.State, r Reservation, need *charge) *Excess {
	if l.calls[r.call] == 0 {
		if e := l.exceeds(s, &r, need); e != nil {
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
		r.own.may.add(&r.cost, times)
		l.charge(r.own.owner, r.cost.ofSession(), times)
	}
	if r.writer != nil {
		l.charge(r.writer, r.cost.ofFiles(), times)
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

// Handles returns how many holds and waits a session has, including any that calls under
// way may make.
func (l *Ledger) Handles(session string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own := l.sessions[session]; own != nil {
		at := own.at()
		return at.Holds
	}
	return 0
}

// UsedBy returns what a principal has, plus what its calls under way may add.
func (l *Ledger) UsedBy(principal string) Sums {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.owners[keyOf(principal)]; o != nil {
		return o.at()
	}
	return Sums{}
}

// Principals returns UsedBy for each principal that uses anything.
func (l *Ledger) Principals() map[string]Sums {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]Sums, len(l.owners))
	for _, o := range l.owners {
		all[o.principal()] = o.at()
	}
	return all
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

// Session reserves what a new session of a principal needs.
func (l *Ledger) Session(op *state.OpenSession, principal string) (Reservation, error) {
	r := Reservation{own: &account{}, cost: Sums{Sessions: 1, Bytes: op.Bytes(), SessionBytes: op.Bytes()}}
	need := charge{more: r.cost}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state()
	r.own.owner = l.owner(principal)
	if op.Key != "" {
		r.call = call{openingCall, op.Key, string(op.Digest), principal}
		if v, ok := s.SessionByKey(op.Key); ok && v.Principal == principal && bytes.Equal(v.Digest, op.Digest) {
			need = charge{}
		}
	}
	return l.reserve(s, r, &need)
}

// reserve is enter for a call that is refused if there is no room. l.mu is
// held.
func (l *Ledger) reserve(s *state.State, r Reservation, need *charge) (Reservation, error) {
	if e := l.enter(s, r, need); e != nil {
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
	hold, wait := s.HoldOrWait(op.Session, op.Path, op.Handle)
	r = Reservation{call: call{acquireCall, op.Session, op.Path, op.Handle}, own: own, cost: handleSums(op.Path, op.Handle)}
	locks := int64(1)
	need := charge{more: r.cost}
	if hold != nil || wait != nil {
		need = charge{}
	}
	if len(op.With) > 0 {
		r.call.b = strings.Join(slices.Sorted(slices.Values(op.Paths())), "\x00") // copies may name them in another order
	}
	for _, path := range op.With {
		one := handleSums(path, op.Handle)
		r.cost.add(&one, 1)
		if h, w := s.HoldOrWait(op.Session, path, op.Handle); h == nil && w == nil {
			need.more.add(&one, 1)
		}
		locks++
	}
	if op.Wait != state.NoWait {
		waiting, position := r, need
		waiting.call.kind, waiting.cost.Waiters = waitingCall, locks
		if wait == nil {
			position.more.Waiters = locks
		}
		if full = l.enter(s, waiting, &position); full == nil {
			return waiting, nil, nil
		}
		if need != (charge{}) && mustWait(s, op) {
			return Reservation{}, nil, l.Refuse(full)
		}
	}
	r, err = l.reserve(s, r, &need)
	return r, full, err
}

func handleSums(path, handle string) Sums {
	n := state.BytesOfHandle(path, handle)
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
