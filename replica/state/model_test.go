package state_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/stoutlock/stout/replica/state"
)

// model is the contract of the lock service said again as plainly as can be:
// slices that are searched from one end to the other, and nothing shared with
// the code under test but the types of what goes in and comes out.
type model struct {
	epoch   uint64
	office  state.Office
	counter uint64 // tokens
	seq     uint64 // waits, delays, events
	now     int64
	members []state.Member

	level    uint64
	revision uint64
	index    uint64 // of the entry before the one being applied
	changes  []state.Change
	sessions []*state.Session
	locks    map[string]*modelLock
	files    map[string]*state.File
	answers  []modelAnswer // oldest first
	access   modelAccess
	caller   string // of the command being applied
	silentMS int64  // the same
}

type modelLock struct {
	holders []*state.Hold // as they were granted
	queue   []*state.Wait // as they came
	delayID uint64
	delayMS int64
}

func newModel() *model {
	return &model{level: 1, locks: map[string]*modelLock{}, files: map[string]*state.File{}, access: newModelAccess()}
}

func (m *model) apply(index, term uint64, b state.Batch) state.Outcome {
	m.changes = nil
	out := state.Outcome{Index: index, Term: term, Results: make([]state.Result, len(b.Commands))}
	if b.LeaseMS >= 1 && b.LeaseMS <= 60_000 {
		if op, opens := theOnly(b).(*state.OpenOffice); opens {
			if op.Term == term && op.Master != "" {
				m.epoch++
				m.tick(b.Commands[0].Time)
				m.office = state.Office{Open: true, Term: term, Master: op.Master, LeaseMS: b.LeaseMS}
				m.emit(state.OfficeOpened{Revision: m.number(), Epoch: m.epoch, Master: op.Master, At: m.now})
				out.Accepted, out.Results[0] = true, state.Done
			}
		} else if m.office.Open && m.office.Term == term && m.epoch == b.Epoch {
			out.Accepted = true
			if b.LeaseMS > m.office.LeaseMS {
				m.office.LeaseMS = b.LeaseMS
			}
			for i, c := range b.Commands {
				if m.office.Open && !m.senseless(c.Operation) {
					m.tick(c.Time)
					if m.caller, m.silentMS = "", 0; m.level >= 2 {
						m.caller = c.Caller
					}
					out.Results[i] = m.command(c.Operation)
				}
			}
		}
	}
	m.index = index
	out.Epoch, out.Changes = m.epoch, m.changes
	return out
}

// restored is what a new cell begins with that goes on from a backup of this one.
func (m *model) restored(floor uint64) {
	for _, path := range slices.Sorted(maps.Keys(m.locks)) {
		l := m.lock(path)
		for _, h := range l.holders {
			m.seq++
			l.delayID = m.seq
			asked := h.DelayMS
			if asked == 0 {
				asked = 60_000
			}
			l.delayMS = max(l.delayMS, asked)
		}
		l.holders, l.queue = nil, nil
	}
	for path, f := range m.files {
		if f.Session != "" {
			delete(m.files, path)
		}
	}
	m.sessions, m.answers, m.members = nil, nil, nil
	m.counter, m.revision = max(m.counter+1, floor), max(m.revision+1, floor)
	m.epoch++
	m.index = 1
	m.office = state.Office{Open: true, Master: m.office.Master, LeaseMS: 60_000}
}

func theOnly(b state.Batch) state.Operation {
	if len(b.Commands) == 1 {
		return b.Commands[0].Operation
	}
	return nil
}

func (m *model) tick(t int64) {
	if t > m.now {
		m.now = t
	}
}

// number is the next revision.
func (m *model) number() uint64 {
	m.revision++
	return m.revision
}

// senseless reports whether an operation is refused whatever the state of locks
// and sessions that live.
func (m *model) senseless(op state.Operation) bool {
	if m.early(op) || m.takenID(op) {
		return true
	}
	switch op := op.(type) {
	case *state.OpenOffice:
		return true
	case *state.OpenSession:
		known := slices.ContainsFunc(m.sessions, func(s *state.Session) bool { return op.Key != "" && s.Key == op.Key })
		return m.session(op.Session) != nil && !known
	case *state.ReportSum:
		return op.Entry < 1 || op.Entry > m.index
	case *state.NoteMembers:
		return oddMembers(op.Members)
	case *state.PutMember:
		return oddMembers([]state.Member{op.Member})
	}
	return false
}

func (m *model) command(op state.Operation) state.Result {
	switch op := op.(type) {
	case *state.CloseOffice:
		m.office.Open = false
		m.emit(state.OfficeClosed{})
		return state.Done
	case *state.OpenSession:
		return m.openSession(op)
	case *state.CloseSession:
		return m.endSession(op.Session, state.Closed)
	case *state.ExpireSession:
		m.silentMS = op.SilentMS
		return m.endSession(op.Session, state.Expired)
	case *state.Acquire:
		return m.acquire(op)
	case *state.Release:
		return m.release(op)
	case *state.Withdraw:
		return m.withdraw(op)
	case *state.EndDelay:
		l := m.lock(op.Path)
		if l.delayID == 0 || l.delayID != op.ID {
			return state.Nothing
		}
		l.delayID, l.delayMS = 0, 0
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
	case *state.RaiseLevel:
		if op.Level <= m.level {
			return state.Nothing
		}
		m.level = op.Level
		m.emit(state.LevelRaised{Level: op.Level})
		return state.Done
	}
	if r, ok := m.changeAccess(op); ok {
		return r
	}
	panic("the model does not know the operation")
}

// oddMembers reports whether a table of members cannot be told apart.
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

func (m *model) noteMembers(op *state.NoteMembers) state.Result {
	var table []state.Member
	for _, v := range op.Members {
		v.Put, v.Stays = false, false
		for _, was := range m.members {
			if was.ID == v.ID && was.Put {
				v.Put, v.Stays, v.RaftAddr, v.URL = true, was.Stays, was.RaftAddr, was.URL
			}
		}
		table = append(table, v)
	}
	return m.setMembers(table)
}

func (m *model) putMember(op *state.PutMember) state.Result {
	put := op.Member
	put.Put = true
	table, there := []state.Member{}, false
	for _, v := range m.members {
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

// setMembers makes a table the cell's; each member keeps the time since which it
// is one.
func (m *model) setMembers(table []state.Member) state.Result {
	for i := range table {
		table[i].Since = m.now
		for _, was := range m.members {
			if was.ID == table[i].ID && was.Directory == table[i].Directory {
				table[i].Since = was.Since
			}
		}
	}
	if slices.Equal(table, m.members) {
		return state.Nothing
	}
	m.members = table
	m.emit(state.MembersNoted{})
	return state.Done
}

func (m *model) emit(c state.Change) { m.changes = append(m.changes, c) }

func (m *model) lock(path string) *modelLock {
	if m.locks[path] == nil {
		m.locks[path] = &modelLock{}
	}
	return m.locks[path]
}

func (m *model) session(id string) *state.Session {
	for _, s := range m.sessions {
		if s.ID == id {
			return s
		}
	}
	return nil
}

func (m *model) openSession(c *state.OpenSession) state.Result {
	for _, s := range m.sessions {
		if c.Key != "" && s.Key == c.Key {
			if bytes.Equal(s.Digest, c.Digest) {
				return state.SessionResult{Verdict: state.Done, Session: s}
			}
			return state.SessionResult{Verdict: state.Conflict, Session: s}
		}
	}
	s := &state.Session{ID: c.Session, Name: c.Name, TTLMS: c.TTLMS, CreatedAt: m.now, Meta: c.Meta, Key: c.Key, Digest: c.Digest, Principal: m.caller}
	m.sessions = append(m.sessions, s)
	m.emit(state.SessionOpened{Session: s})
	return state.SessionResult{Verdict: state.Done, Session: s}
}

// endSession goes over the session's claims by path and handle, and hands
// nothing on before all of them are gone.
func (m *model) endSession(id string, why state.Reason) state.Result {
	s := m.session(id)
	if s == nil {
		return state.NoSession
	}
	paths := slices.Sorted(maps.Keys(m.locks))
	for _, path := range paths {
		for _, handle := range m.handles(path, id) {
			h, w := m.claim(id, path, handle)
			if w != nil {
				m.dropWait(w)
				continue
			}
			m.dropHold(h, why)
			if l := m.lock(path); why == state.Expired && h.DelayMS > 0 {
				m.seq++
				l.delayID, l.delayMS = m.seq, max(l.delayMS, h.DelayMS)
				m.emit(state.DelayBegan{Path: path, ID: m.seq, MS: h.DelayMS})
			}
		}
	}
	m.endFiles(id, why)
	m.sessions = slices.DeleteFunc(m.sessions, func(v *state.Session) bool { return v == s })
	for _, path := range paths {
		m.handOn(path)
	}
	m.emit(state.SessionEnded{Session: s, Expired: why == state.Expired})
	return state.Done
}

// handles are those under which a session has a claim on path, sorted.
func (m *model) handles(path, session string) []string {
	var out []string
	for _, h := range m.lock(path).holders {
		if h.Session == session {
			out = append(out, h.Handle)
		}
	}
	for _, w := range m.lock(path).queue {
		if w.Session == session {
			out = append(out, w.Handle)
		}
	}
	slices.SortFunc(out, strings.Compare)
	return out
}

func (m *model) claim(session, path, handle string) (*state.Hold, *state.Wait) {
	for _, h := range m.lock(path).holders {
		if h.Session == session && h.Handle == handle {
			return h, nil
		}
	}
	for _, w := range m.lock(path).queue {
		if w.Session == session && w.Handle == handle {
			return nil, w
		}
	}
	return nil, nil
}

func (m *model) position(w *state.Wait) int {
	return slices.IndexFunc(m.lock(w.Path).queue, func(o *state.Wait) bool { return o.Seq == w.Seq }) + 1
}

// decide is what an acquire comes to for a pair without a claim.
func (m *model) decide(path string, mode state.Mode, limit int64) state.AcquireResult {
	l := m.lock(path)
	if mode == state.Shared {
		for _, h := range l.holders {
			if h.Mode == state.Shared && h.Limit != limit {
				return state.AcquireResult{Verdict: state.Conflict, Clash: state.ClashOther}
			}
		}
		for _, w := range l.queue {
			if w.Mode == state.Shared && w.Limit != limit {
				return state.AcquireResult{Verdict: state.Conflict, Clash: state.ClashOther}
			}
		}
	}
	switch {
	case l.delayID != 0 && len(l.holders) == 0:
		return state.AcquireResult{Verdict: state.Delayed}
	case l.delayID != 0 || len(l.queue) > 0 || !l.hasRoom(mode, limit):
		return state.AcquireResult{Verdict: state.Busy}
	}
	return state.AcquireResult{Verdict: state.Held}
}

func (l *modelLock) hasRoom(mode state.Mode, limit int64) bool {
	for _, h := range l.holders {
		if mode == state.Exclusive || h.Mode == state.Exclusive {
			return false
		}
	}
	return limit == 0 || int64(len(l.holders)) < limit
}

func (m *model) acquire(c *state.Acquire) state.Result {
	if m.session(c.Session) == nil {
		return state.AcquireResult{Verdict: state.NoSession}
	}
	h, w := m.claim(c.Session, c.Path, c.Handle)
	switch {
	case h != nil && h.Mode != c.Mode:
		return state.AcquireResult{Verdict: state.Conflict, Clash: state.ClashMode, Hold: h}
	case h != nil && h.Limit != c.Limit:
		return state.AcquireResult{Verdict: state.Conflict, Clash: state.ClashLimit, Hold: h}
	case h != nil:
		return state.AcquireResult{Verdict: state.Held, Hold: h}
	case w != nil && w.Mode != c.Mode:
		return state.AcquireResult{Verdict: state.Conflict, Clash: state.ClashMode, Wait: w}
	case w != nil && w.Limit != c.Limit:
		return state.AcquireResult{Verdict: state.Conflict, Clash: state.ClashLimit, Wait: w}
	case w != nil:
		now := *w
		now.Keep = w.Keep || c.Wait == state.Persistent
		m.lock(c.Path).queue[m.position(w)-1] = &now
		if now != *w {
			m.emit(state.Kept{Wait: &now})
		}
		return state.AcquireResult{Verdict: state.Queued, Wait: &now}
	}
	r := m.decide(c.Path, c.Mode, c.Limit)
	w = &state.Wait{Path: c.Path, Session: c.Session, Handle: c.Handle, Mode: c.Mode, Limit: c.Limit, DelayMS: c.DelayMS}
	if r.Verdict == state.Held {
		r.Hold = m.grant(w, nil)
		return r
	}
	if r.Verdict == state.Conflict || c.Wait == state.NoWait {
		return r
	}
	m.seq++
	w.Seq, w.Keep, w.Since = m.seq, c.Wait == state.Persistent, m.now
	l := m.lock(c.Path)
	l.queue = append(l.queue, w)
	contended := uint64(0)
	if len(l.holders) > 0 && len(l.queue) == 1 {
		contended = m.number()
	}
	m.emit(state.Enqueued{Revision: contended, Wait: w})
	return state.AcquireResult{Verdict: state.Queued, Wait: w, Position: len(l.queue)}
}

func (m *model) grant(w, from *state.Wait) *state.Hold {
	m.counter++
	h := &state.Hold{Path: w.Path, Session: w.Session, Handle: w.Handle, Mode: w.Mode, Limit: w.Limit,
		Token: m.counter, GrantedAt: m.now, DelayMS: w.DelayMS, WaitSeq: w.Seq}
	if w.Keep {
		m.seq++
		h.EventSeq = m.seq
	}
	l := m.lock(w.Path)
	l.holders = append(l.holders, h)
	m.emit(state.Granted{Revision: m.number(), Hold: h, Wait: from})
	return h
}

func (m *model) handOn(path string) {
	l := m.lock(path)
	for l.delayID == 0 && len(l.queue) > 0 && l.hasRoom(l.queue[0].Mode, l.queue[0].Limit) {
		w := l.queue[0]
		if !m.mayLock(w) {
			m.end(w)
			continue
		}
		l.queue = l.queue[1:]
		m.grant(w, w)
	}
}

func (m *model) dropHold(h *state.Hold, why state.Reason) {
	l := m.lock(h.Path)
	l.holders = slices.DeleteFunc(slices.Clone(l.holders), func(o *state.Hold) bool { return o == h })
	m.emit(state.Released{Revision: m.number(), Hold: h, Reason: why, Ending: m.ending()})
}

func (m *model) ending() state.Ending {
	return state.Ending{At: m.now, By: m.caller, SilentMS: m.silentMS}
}

func (m *model) dropWait(w *state.Wait) {
	l := m.lock(w.Path)
	l.queue = slices.DeleteFunc(slices.Clone(l.queue), func(o *state.Wait) bool { return o == w })
	m.emit(state.Withdrawn{Wait: w})
}

func (m *model) release(c *state.Release) state.Result {
	if m.session(c.Session) == nil {
		return state.NoSession
	}
	h, w := m.claim(c.Session, c.Path, c.Handle)
	switch {
	case h != nil && (c.Token == 0 || c.Token == h.Token):
		why := state.GivenBack
		if owner := m.session(c.Session).Principal; m.caller != "" && owner != "" && owner != m.caller || c.Forced {
			why = state.Forced
		}
		m.dropHold(h, why)
	case w != nil && c.Token == 0:
		m.dropWait(w)
	default:
		return state.Nothing
	}
	m.handOn(c.Path)
	return state.Done
}

func (m *model) withdraw(c *state.Withdraw) state.Result {
	h, w := m.claim(c.Session, c.Path, c.Handle)
	switch {
	case c.Seq == 0, h == nil && w == nil, h != nil && h.WaitSeq != c.Seq, w != nil && w.Seq != c.Seq:
		return state.AcquireResult{Verdict: state.Nothing}
	case w != nil && w.Keep:
		return state.AcquireResult{Verdict: state.Queued, Wait: w}
	case w != nil:
		m.dropWait(w)
	case !c.Undo || h.EventSeq != 0:
		return state.AcquireResult{Verdict: state.Held, Hold: h}
	default:
		m.dropHold(h, state.GivenBack)
	}
	m.handOn(c.Path)
	return state.AcquireResult{Verdict: state.Done}
}
