// Package model states the contract of the replicated state a second time, as
// plainly as possible. It uses slices that are searched from end to end, and
// shares only the types of inputs and outputs with package state.
//
// The property tests of package state and the simulator's oracle drive it. Both
// apply each batch to the state and to the model and compare the outcomes.
// Package history can't use it: it sees requests and answers only, and searches
// for an order of them.
package model

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/stoutlock/stout/replica/state"
)

// Model is the state of a cell. Sessions and Access are replaced, not changed,
// so a caller may keep them.
type Model struct {
	Epoch    uint64
	Office   state.Office
	Counter  uint64 // tokens
	Seq      uint64 // waits, delays, events
	Now      int64
	Members  []state.Member
	Level    uint64
	Revision uint64
	Sessions []*state.Session
	Locks    map[string]*Lock
	Files    map[string]*state.File
	Access   *Access

	// Each, if set, is called after each command.
	Each func()

	index    uint64 // of the entry before the one under way
	changes  []state.Change
	answers  []answer // oldest first
	caller   string   // of the command under way
	silentMS int64    // of the command under way
}

// Lock is a lock with its queue.
type Lock struct {
	Holders []*state.Hold // in the order of their grants
	Queue   []*state.Wait // the next one first
	DelayID uint64
	DelayMS int64
}

// New returns the model of a cell with an empty log.
func New() *Model {
	return &Model{Level: 1, Locks: map[string]*Lock{}, Files: map[string]*state.File{}, Access: &Access{}}
}

// Apply applies an entry of the log and returns its outcome.
func (m *Model) Apply(index, term uint64, b state.Batch) state.Outcome {
	m.changes = nil
	out := state.Outcome{Index: index, Term: term, Results: make([]state.Result, len(b.Commands))}
	if b.LeaseMS >= 1 && b.LeaseMS <= 60_000 {
		if op, opens := theOnly(b).(*state.OpenOffice); opens {
			if op.Term == term && op.Master != "" {
				m.Epoch++
				m.tick(b.Commands[0].Time)
				m.Office = state.Office{Open: true, Term: term, Master: op.Master, LeaseMS: b.LeaseMS}
				m.emit(state.OfficeOpened{Revision: m.number(), Epoch: m.Epoch, Master: op.Master, At: m.Now})
				out.Accepted, out.Results[0] = true, state.Done
			}
		} else if m.Office.Open && m.Office.Term == term && m.Epoch == b.Epoch {
			out.Accepted = true
			if b.LeaseMS > m.Office.LeaseMS {
				m.Office.LeaseMS = b.LeaseMS
			}
			for i, c := range b.Commands {
				if m.Office.Open && !m.senseless(c.Operation) {
					m.tick(c.Time)
					if m.caller, m.silentMS = "", 0; m.Level >= 2 {
						m.caller = c.Caller
					}
					out.Results[i] = m.command(c.Operation)
					if m.Each != nil {
						m.Each()
					}
				}
			}
		}
	}
	m.index = index
	out.Epoch, out.Changes = m.Epoch, m.changes
	return out
}

// Restored turns the model into the state of a new cell that starts from a
// backup of this one.
func (m *Model) Restored(floor uint64) {
	for _, path := range slices.Sorted(maps.Keys(m.Locks)) {
		l := m.Lock(path)
		for _, h := range l.Holders {
			m.Seq++
			l.DelayID = m.Seq
			asked := h.DelayMS
			if asked == 0 {
				asked = 60_000
			}
			l.DelayMS = max(l.DelayMS, asked)
			if h.Key == state.KeyDeleted {
				delete(m.Files, path)
			}
		}
		l.Holders, l.Queue = nil, nil
	}
	for path, f := range m.Files {
		if f.Session != "" {
			delete(m.Files, path)
		}
	}
	m.Sessions, m.answers, m.Members = nil, nil, nil
	m.Counter, m.Revision = max(m.Counter+1, floor), max(m.Revision+1, floor)
	m.Epoch++
	m.index = 1
	m.Office = state.Office{Open: true, Master: m.Office.Master, LeaseMS: 60_000}
}

func theOnly(b state.Batch) state.Operation {
	if len(b.Commands) == 1 {
		return b.Commands[0].Operation
	}
	return nil
}

func (m *Model) tick(t int64) {
	if t > m.Now {
		m.Now = t
	}
}

// number returns the next revision.
func (m *Model) number() uint64 {
	m.Revision++
	return m.Revision
}

// senseless reports whether an operation is refused regardless of the state of
// locks and live sessions.
func (m *Model) senseless(op state.Operation) bool {
	if m.early(op) || m.usedID(op) {
		return true
	}
	switch op := op.(type) {
	case *state.OpenOffice:
		return true
	case *state.OpenSession:
		known := slices.ContainsFunc(m.Sessions, func(s *state.Session) bool { return op.Key != "" && s.Key == op.Key })
		return m.Session(op.Session) != nil && !known
	case *state.ReportSum:
		return op.Entry < 1 || op.Entry > m.index
	case *state.NoteMembers:
		return oddMembers(op.Members)
	case *state.PutMember:
		return oddMembers([]state.Member{op.Member})
	}
	return false
}

func (m *Model) command(op state.Operation) state.Result {
	switch op := op.(type) {
	case *state.CloseOffice:
		m.Office.Open = false
		m.emit(state.OfficeClosed{})
		return state.Done
	case *state.OpenSession:
		return m.openSession(op)
	case *state.CloseSession:
		return m.endSession(op.Session, state.Closed, op.Delays)
	case *state.ExpireSession:
		m.silentMS = op.SilentMS
		return m.endSession(op.Session, state.Expired, true)
	case *state.Acquire:
		if len(op.With) > 0 {
			return m.acquireSet(op)
		}
		return m.acquire(op)
	case *state.Release:
		return m.release(op, state.LostByForce)
	case *state.Withdraw:
		return m.withdraw(op)
	case *state.EndDelay:
		l := m.Lock(op.Path)
		if l.DelayID == 0 || l.DelayID != op.ID {
			return state.Nothing
		}
		l.DelayID, l.DelayMS = 0, 0
		m.emit(state.DelayEnded{Path: op.Path, ID: op.ID})
		m.handOn(op.Path)
		return state.Done
	case *state.MarkState:
		m.emit(state.Marked{})
		return state.Done
	case *state.ReportSum:
		m.emit(state.SumReported{Entry: op.Entry, Sum: [32]byte(op.Sum)})
		return state.Done
	case *state.NoteMembers:
		return m.noteMembers(op)
	case *state.PutMember:
		return m.putMember(op)
	case *state.Transaction:
		return m.transaction(op)
	case *state.ChangeKeys:
		return m.changeKeys(op)
	case *state.RaiseLevel:
		if op.Level <= m.Level {
			return state.Nothing
		}
		m.Level = op.Level
		m.emit(state.LevelRaised{Level: op.Level})
		return state.Done
	}
	if r, ok := m.changeAccess(op); ok {
		return r
	}
	panic("the model does not know the operation")
}

// oddMembers reports whether a table of members is empty, incomplete or has
// duplicates.
func oddMembers(table []state.Member) bool {
	for i, v := range table {
		for _, other := range table[:i] {
			if other.ID == v.ID && other.Directory == v.Directory {
				return true
			}
		}
		if v.ID == "" || v.Directory == "" {
			return true
		}
	}
	return len(table) == 0
}

func (m *Model) noteMembers(op *state.NoteMembers) state.Result {
	var table []state.Member
	for _, v := range op.Members {
		v.Put, v.Stays = false, false
		for _, was := range m.Members {
			if was.ID == v.ID && was.Put {
				v.Put, v.Stays, v.RaftAddr, v.URL = true, was.Stays, was.RaftAddr, was.URL
			}
		}
		table = append(table, v)
	}
	return m.setMembers(table)
}

func (m *Model) putMember(op *state.PutMember) state.Result {
	put := op.Member
	put.Put = true
	table, there := []state.Member{}, false
	for _, v := range m.Members {
		if v.ID == put.ID {
			there = there || v.Directory == op.Member.Directory
			put.Directory = v.Directory
			v = put
		}
		table = append(table, v)
	}
	if put.Directory = op.Member.Directory; !there {
		table = append(table, put)
	}
	if len(table) > 64 {
		return state.Full
	}
	return m.setMembers(table)
}

// setMembers replaces the cell's table of members. Each member keeps the time
// since which it is one.
func (m *Model) setMembers(table []state.Member) state.Result {
	for i := range table {
		table[i].Since = m.Now
		for _, was := range m.Members {
			if was.ID == table[i].ID && was.Directory == table[i].Directory {
				table[i].Since = was.Since
			}
		}
	}
	if slices.Equal(table, m.Members) {
		return state.Nothing
	}
	m.Members = table
	m.emit(state.MembersNoted{})
	return state.Done
}

func (m *Model) emit(c state.Change) { m.changes = append(m.changes, c) }

// Lock returns the lock at path.
func (m *Model) Lock(path string) *Lock {
	if m.Locks[path] == nil {
		m.Locks[path] = &Lock{}
	}
	return m.Locks[path]
}

// Session returns the live session with an id, or nil.
func (m *Model) Session(id string) *state.Session {
	for _, s := range m.Sessions {
		if s.ID == id {
			return s
		}
	}
	return nil
}

func (m *Model) openSession(c *state.OpenSession) state.Result {
	for _, s := range m.Sessions {
		if c.Key != "" && s.Key == c.Key {
			if bytes.Equal(s.Digest, c.Digest) {
				return state.SessionResult{Verdict: state.Done, Session: s}
			}
			return state.SessionResult{Verdict: state.Conflict, Session: s}
		}
	}
	s := &state.Session{ID: c.Session, Name: c.Name, TTLMS: c.TTLMS, CreatedAt: m.Now, Meta: c.Meta, Key: c.Key, Digest: c.Digest, Principal: m.caller}
	if m.Level >= 7 {
		s.Revision = m.Revision
	}
	m.Sessions = append(slices.Clip(m.Sessions), s)
	m.emit(state.SessionOpened{Session: s})
	return state.SessionResult{Verdict: state.Done, Session: s}
}

// endSession ends the session's holds and waits by path and handle. It grants locks to
// waiters only after all of them are gone.
func (m *Model) endSession(id string, why state.Reason, delays bool) state.Result {
	s := m.Session(id)
	if s == nil {
		return state.NoSession
	}
	var touched []string
	for _, path := range slices.Sorted(maps.Keys(m.Locks)) {
		for _, handle := range m.Handles(path, id) {
			touched = append(touched, path)
			h, w := m.HoldOrWait(id, path, handle)
			if w != nil {
				m.dropWait(w)
				continue
			}
			m.dropHold(h, why)
			if l := m.Lock(path); delays && h.DelayMS > 0 {
				m.Seq++
				l.DelayID, l.DelayMS = m.Seq, max(l.DelayMS, h.DelayMS)
				m.emit(state.DelayBegan{Path: path, ID: m.Seq, MS: h.DelayMS})
			}
		}
	}
	m.endFiles(id, why)
	m.Sessions = slices.DeleteFunc(slices.Clone(m.Sessions), func(v *state.Session) bool { return v == s })
	for _, path := range touched { // first at these: a set also waits at others
		m.handOn(path)
	}
	m.emit(state.SessionEnded{Session: s, Expired: why == state.Expired})
	return state.Done
}

// Handles returns the sorted handles under which a session holds or waits.
func (m *Model) Handles(path, session string) []string {
	var out []string
	for _, h := range m.Lock(path).Holders {
		if h.Session == session {
			out = append(out, h.Handle)
		}
	}
	for _, w := range m.Lock(path).Queue {
		if w.Session == session {
			out = append(out, w.Handle)
		}
	}
	slices.SortFunc(out, strings.Compare)
	return out
}

// HoldOrWait returns the hold or the wait of a session under a handle, or nil for
// both.
func (m *Model) HoldOrWait(session, path, handle string) (*state.Hold, *state.Wait) {
	for _, h := range m.Lock(path).Holders {
		if h.Session == session && h.Handle == handle {
			return h, nil
		}
	}
	for _, w := range m.Lock(path).Queue {
		if w.Session == session && w.Handle == handle {
			return nil, w
		}
	}
	return nil, nil
}

func (m *Model) position(w *state.Wait) int {
	return slices.IndexFunc(m.Lock(w.Path).Queue, func(o *state.Wait) bool { return o.Seq == w.Seq }) + 1
}

// decide returns the result of an acquire for a pair without a hold or wait.
func (m *Model) decide(path string, mode state.Mode, limit int64) state.AcquireResult {
	l := m.Lock(path)
	if mode == state.Shared {
		for _, h := range l.Holders {
			if h.Mode == state.Shared && h.Limit != limit {
				return state.AcquireResult{Verdict: state.Conflict, Mismatch: state.MismatchOther}
			}
		}
		for _, w := range l.Queue {
			if w.Mode == state.Shared && w.Limit != limit {
				return state.AcquireResult{Verdict: state.Conflict, Mismatch: state.MismatchOther}
			}
		}
	}
	switch {
	case l.DelayID != 0 && len(l.Holders) == 0:
		return state.AcquireResult{Verdict: state.Delayed}
	case l.DelayID != 0 || len(l.Queue) > 0 || !l.hasRoom(mode, limit):
		return state.AcquireResult{Verdict: state.Busy}
	}
	return state.AcquireResult{Verdict: state.Held}
}

func (l *Lock) hasRoom(mode state.Mode, limit int64) bool {
	for _, h := range l.Holders {
		if mode == state.Exclusive || h.Mode == state.Exclusive {
			return false
		}
	}
	return limit == 0 || int64(len(l.Holders)) < limit
}

func (m *Model) acquire(c *state.Acquire) state.Result {
	if m.Session(c.Session) == nil {
		return state.AcquireResult{Verdict: state.NoSession}
	}
	h, w := m.HoldOrWait(c.Session, c.Path, c.Handle)
	switch {
	case h != nil && h.Mode != c.Mode:
		return state.AcquireResult{Verdict: state.Conflict, Mismatch: state.MismatchMode, Hold: h}
	case h != nil && h.Limit != c.Limit:
		return state.AcquireResult{Verdict: state.Conflict, Mismatch: state.MismatchLimit, Hold: h}
	case h != nil:
		return state.AcquireResult{Verdict: state.Held, Hold: h}
	case w != nil && w.Set != nil:
		return state.AcquireResult{Verdict: state.Conflict, Mismatch: state.MismatchSet, Wait: w}
	case w != nil && w.Mode != c.Mode:
		return state.AcquireResult{Verdict: state.Conflict, Mismatch: state.MismatchMode, Wait: w}
	case w != nil && w.Limit != c.Limit:
		return state.AcquireResult{Verdict: state.Conflict, Mismatch: state.MismatchLimit, Wait: w}
	case w != nil:
		if c.Wait == state.Persistent && !w.Keep {
			w = m.keep(w)
		}
		return state.AcquireResult{Verdict: state.Queued, Wait: w}
	}
	r, ahead := m.attempt(c, c.Path)
	w = newWait(c, c.Path)
	if r.Verdict == state.Held {
		r.Hold = m.grant(w, nil)
		return r
	}
	if r.Verdict == state.Conflict || c.Wait == state.NoWait {
		return r
	}
	m.Seq++
	w.Seq = m.Seq
	m.enqueue(c, w, ahead)
	return state.AcquireResult{Verdict: state.Queued, Wait: w, Position: ahead + 1}
}

func newWait(c *state.Acquire, path string) *state.Wait {
	return &state.Wait{Path: path, Session: c.Session, Handle: c.Handle, Mode: c.Mode, Limit: c.Limit, DelayMS: c.DelayMS}
}

// keep makes a wait persistent.
func (m *Model) keep(w *state.Wait) *state.Wait {
	kept := *w
	kept.Keep = true
	m.Lock(w.Path).Queue[m.position(w)-1] = &kept
	m.emit(state.Kept{Wait: &kept})
	return &kept
}

// attempt returns what a new request gets at a path, and how many waits are
// ahead of it.
func (m *Model) attempt(c *state.Acquire, path string) (r state.AcquireResult, ahead int) {
	l := m.Lock(path)
	for ahead < len(l.Queue) && l.Queue[ahead].Priority >= c.Priority {
		ahead++
	}
	r = m.decide(path, c.Mode, c.Limit)
	if r.Verdict == state.Busy && ahead == 0 && l.DelayID == 0 && l.hasRoom(c.Mode, c.Limit) {
		r.Verdict = state.Held
	}
	return r, ahead
}

// enqueue puts a wait with its number behind those ahead of it.
func (m *Model) enqueue(c *state.Acquire, w *state.Wait, ahead int) {
	l := m.Lock(w.Path)
	w.Keep, w.Since, w.Priority = c.Wait == state.Persistent, m.Now, c.Priority
	l.Queue = slices.Insert(l.Queue, ahead, w)
	contended := uint64(0)
	if len(l.Holders) > 0 && ahead == 0 {
		contended = m.number()
	}
	m.emit(state.Enqueued{Revision: contended, Wait: w})
}

func (m *Model) grant(w, from *state.Wait) *state.Hold {
	m.Counter++
	h := &state.Hold{Path: w.Path, Session: w.Session, Handle: w.Handle, Mode: w.Mode, Limit: w.Limit,
		Token: m.Counter, GrantedAt: m.Now, DelayMS: w.DelayMS, WaitSeq: w.Seq}
	if w.Keep {
		m.Seq++
		h.EventSeq = m.Seq
	}
	l := m.Lock(w.Path)
	l.Holders = append(l.Holders, h)
	m.emit(state.Granted{Revision: m.number(), Hold: h, Wait: from})
	return h
}

func (m *Model) handOn(path string) {
	for todo := []string{path}; len(todo) > 0; {
		path, todo = todo[0], todo[1:]
		for l := m.Lock(path); len(l.Queue) > 0 && m.ready(path); {
			w := l.Queue[0]
			switch {
			case w.Set != nil:
				m.grantSet(w)
				for _, other := range w.Set {
					if other != path && !slices.Contains(todo, other) {
						todo = append(todo, other)
					}
				}
			case m.mayLock(w):
				l.Queue = l.Queue[1:]
				m.grant(w, w)
			default:
				m.end(w)
			}
		}
	}
}

func (m *Model) dropHold(h *state.Hold, why state.Reason) {
	m.endHold(h, why)
	m.endKey(h, why)
}

// endHold ends a hold and leaves the file.
func (m *Model) endHold(h *state.Hold, why state.Reason) {
	l := m.Lock(h.Path)
	l.Holders = slices.DeleteFunc(slices.Clone(l.Holders), func(o *state.Hold) bool { return o == h })
	m.emit(state.Released{Revision: m.number(), Hold: h, Reason: why, Ending: m.ending()})
}

func (m *Model) ending() state.Ending {
	return state.Ending{At: m.Now, By: m.caller, SilentMS: m.silentMS}
}

func (m *Model) dropWait(w *state.Wait) {
	l := m.Lock(w.Path)
	l.Queue = slices.DeleteFunc(slices.Clone(l.Queue), func(o *state.Wait) bool { return o == w })
	m.emit(state.Withdrawn{Wait: w})
}

// lose notes in the session of h how it lost the hold, from the fifth level on.
func (m *Model) lose(h *state.Hold, why state.LossReason) {
	if m.Level < 5 {
		return
	}
	m.Seq++
	i := slices.IndexFunc(m.Sessions, func(v *state.Session) bool { return v.ID == h.Session })
	v := *m.Sessions[i]
	l := &state.Loss{Path: h.Path, Handle: h.Handle, Token: h.Token, EventSeq: m.Seq, Reason: why}
	v.Losses = append(slices.Clone(v.Losses), l)
	if len(v.Losses) > 128 {
		v.Losses = v.Losses[1:]
	}
	m.Sessions = slices.Clone(m.Sessions)
	m.Sessions[i] = &v
	m.emit(state.HoldLost{Session: v.ID, Loss: l})
}

// release ends a hold or wait; lost is the reason where that is another's doing.
func (m *Model) release(c *state.Release, lost state.LossReason) state.Result {
	if m.Session(c.Session) == nil {
		return state.NoSession
	}
	h, w := m.HoldOrWait(c.Session, c.Path, c.Handle)
	switch {
	case h != nil && (c.Token == 0 || c.Token == h.Token):
		if owner := m.Session(c.Session).Principal; m.caller != "" && owner != "" && owner != m.caller || c.Forced {
			m.dropHold(h, state.Forced)
			m.lose(h, lost)
		} else {
			m.dropHold(h, state.GivenBack)
		}
	case w != nil && c.Token == 0:
		m.dropWaits(w)
		m.handOnAll(w)
		return state.Done
	default:
		return state.Nothing
	}
	m.handOn(c.Path)
	return state.Done
}

func (m *Model) withdraw(c *state.Withdraw) state.Result {
	h, w := m.HoldOrWait(c.Session, c.Path, c.Handle)
	switch {
	case c.Seq == 0, h == nil && w == nil, h != nil && h.WaitSeq != c.Seq, w != nil && w.Seq != c.Seq:
		return state.AcquireResult{Verdict: state.Nothing}
	case w != nil && w.Keep:
		return state.AcquireResult{Verdict: state.Queued, Wait: w}
	case w != nil:
		m.dropWaits(w)
		m.handOnAll(w)
		return state.AcquireResult{Verdict: state.Done}
	case !c.Undo || h.EventSeq != 0:
		return state.AcquireResult{Verdict: state.Held, Hold: h}
	default:
		m.dropHold(h, state.GivenBack)
		m.lose(h, state.LostByUndo)
	}
	m.handOn(c.Path)
	return state.AcquireResult{Verdict: state.Done}
}
