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

	index    uint64 // of the entry being applied
	events   []state.Event
	sessions []*state.Session
	locks    map[string]*modelLock
}

type modelLock struct {
	holders []*state.Hold // as they were granted
	queue   []*state.Wait // as they came
	delayID uint64
	delayMS int64
}

func newModel() *model { return &model{locks: map[string]*modelLock{}} }

func (m *model) apply(index, term uint64, b state.Batch) state.Outcome {
	m.index, m.events = index, nil
	out := state.Outcome{Index: index, Term: term, Results: make([]state.Result, len(b.Commands))}
	if b.LeaseMS >= 1 && b.LeaseMS <= 60_000 {
		if len(b.Commands) == 1 && b.Commands[0].Kind == state.OpenOffice {
			if c := b.Commands[0]; c.Term == term && c.Master != "" {
				m.epoch++
				m.tick(c.Time)
				m.office = state.Office{Open: true, Term: term, Master: c.Master, LeaseMS: b.LeaseMS}
				out.Accepted, out.Results[0].Verdict = true, state.Done
			}
		} else if m.office.Open && m.office.Term == term && m.epoch == b.Epoch {
			out.Accepted = true
			if b.LeaseMS > m.office.LeaseMS {
				m.office.LeaseMS = b.LeaseMS
			}
			for i, c := range b.Commands {
				if m.office.Open && !oddMembers(c) {
					m.tick(c.Time)
					out.Results[i] = m.command(c)
				}
			}
		}
	}
	out.Epoch, out.Events = m.epoch, m.events
	return out
}

func (m *model) tick(t int64) {
	if t > m.now {
		m.now = t
	}
}

func (m *model) command(c state.Command) state.Result {
	switch c.Kind {
	case state.CloseOffice:
		m.office.Open = false
		return state.Result{Verdict: state.Done}
	case state.OpenSession:
		return m.openSession(c)
	case state.CloseSession:
		return m.endSession(c.Session, false)
	case state.ExpireSession:
		return m.endSession(c.Session, true)
	case state.Acquire:
		return m.acquire(c)
	case state.Release:
		return m.release(c)
	case state.Withdraw:
		return m.withdraw(c)
	case state.EndDelay:
		l := m.lock(c.Path)
		if l.delayID == 0 || l.delayID != c.Seq {
			return state.Result{Verdict: state.Nothing}
		}
		l.delayID, l.delayMS = 0, 0
		m.emit(state.Event{Kind: state.EventDelayOver, Path: c.Path, DelayID: c.Seq})
		m.handOn(c.Path)
		return state.Result{Verdict: state.Done}
	case state.MarkState:
		m.emit(state.Event{Kind: state.EventMarked})
		return state.Result{Verdict: state.Done}
	case state.TellSum:
		if c.Seq < 1 || c.Seq >= m.index {
			return state.Result{}
		}
		m.emit(state.Event{Kind: state.EventSum, Marked: c.Seq, Sum: [32]byte(c.Digest)})
		return state.Result{Verdict: state.Done}
	case state.NoteMembers:
		return m.noteMembers(c)
	}
	return state.Result{}
}

// oddMembers reports whether a table of members cannot be told apart.
func oddMembers(c state.Command) bool {
	for i, v := range c.Members {
		for _, other := range c.Members[:i] {
			if other.ID == v.ID && other.Directory == v.Directory {
				return true
			}
		}
		if v.ID == "" || v.Directory == "" {
			return true
		}
	}
	return c.Kind == state.NoteMembers && len(c.Members) == 0
}

func (m *model) noteMembers(c state.Command) state.Result {
	var table []state.Member
	for _, v := range c.Members {
		v.Since = m.now
		for _, was := range m.members {
			if was.ID == v.ID && was.Directory == v.Directory {
				v.Since = was.Since
			}
		}
		table = append(table, v)
	}
	m.members = table
	return state.Result{Verdict: state.Done}
}

func (m *model) emit(e state.Event) {
	e.Index = m.index
	m.events = append(m.events, e)
}

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

func (m *model) openSession(c state.Command) state.Result {
	for _, s := range m.sessions {
		if c.Key != "" && s.Key == c.Key {
			if bytes.Equal(s.Digest, c.Digest) {
				return state.Result{Verdict: state.Done, Session: s}
			}
			return state.Result{Verdict: state.Conflict, Clash: state.ClashKey, Session: s}
		}
	}
	if m.session(c.Session) != nil {
		return state.Result{Verdict: state.Refused}
	}
	s := &state.Session{ID: c.Session, Name: c.Name, TTLMS: c.TTLMS, CreatedAt: m.now, Meta: c.Meta, Key: c.Key, Digest: c.Digest}
	m.sessions = append(m.sessions, s)
	m.emit(state.Event{Kind: state.EventOpened, Session: s})
	return state.Result{Verdict: state.Done, Session: s}
}

// endSession goes over the session's claims by path and handle, and hands
// nothing on before all of them are gone.
func (m *model) endSession(id string, expired bool) state.Result {
	s := m.session(id)
	if s == nil {
		return state.Result{Verdict: state.NoSession}
	}
	paths := slices.Sorted(maps.Keys(m.locks))
	for _, path := range paths {
		for _, handle := range m.handles(path, id) {
			h, w := m.claim(id, path, handle)
			if w != nil {
				m.dropWait(w)
				continue
			}
			m.dropHold(h)
			if l := m.lock(path); expired && h.DelayMS > 0 {
				m.seq++
				l.delayID, l.delayMS = m.seq, max(l.delayMS, h.DelayMS)
				m.emit(state.Event{Kind: state.EventDelay, Path: path, DelayID: m.seq, DelayMS: h.DelayMS})
			}
		}
	}
	m.sessions = slices.DeleteFunc(m.sessions, func(v *state.Session) bool { return v == s })
	for _, path := range paths {
		m.handOn(path)
	}
	m.emit(state.Event{Kind: state.EventEnded, Session: s, Expired: expired})
	return state.Result{Verdict: state.Done, Session: s}
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
func (m *model) decide(path string, mode state.Mode, limit int64) state.Result {
	l := m.lock(path)
	if mode == state.Shared {
		for _, h := range l.holders {
			if h.Mode == state.Shared && h.Limit != limit {
				return state.Result{Verdict: state.Conflict, Clash: state.ClashOther}
			}
		}
		for _, w := range l.queue {
			if w.Mode == state.Shared && w.Limit != limit {
				return state.Result{Verdict: state.Conflict, Clash: state.ClashOther}
			}
		}
	}
	switch {
	case l.delayID != 0 && len(l.holders) == 0:
		return state.Result{Verdict: state.Delayed}
	case l.delayID != 0 || len(l.queue) > 0 || !l.hasRoom(mode, limit):
		return state.Result{Verdict: state.Busy}
	}
	return state.Result{Verdict: state.Held}
}

func (l *modelLock) hasRoom(mode state.Mode, limit int64) bool {
	for _, h := range l.holders {
		if mode == state.Exclusive || h.Mode == state.Exclusive {
			return false
		}
	}
	return limit == 0 || int64(len(l.holders)) < limit
}

func (m *model) acquire(c state.Command) state.Result {
	if m.session(c.Session) == nil {
		return state.Result{Verdict: state.NoSession}
	}
	h, w := m.claim(c.Session, c.Path, c.Handle)
	switch {
	case h != nil && h.Mode != c.Mode:
		return state.Result{Verdict: state.Conflict, Clash: state.ClashMode, Hold: h}
	case h != nil && h.Limit != c.Limit:
		return state.Result{Verdict: state.Conflict, Clash: state.ClashLimit, Hold: h}
	case h != nil:
		return state.Result{Verdict: state.Held, Hold: h}
	case w != nil && w.Mode != c.Mode:
		return state.Result{Verdict: state.Conflict, Clash: state.ClashMode, Wait: w}
	case w != nil && w.Limit != c.Limit:
		return state.Result{Verdict: state.Conflict, Clash: state.ClashLimit, Wait: w}
	case w != nil:
		now := *w
		now.Keep = w.Keep || c.Wait == state.Keep
		m.lock(c.Path).queue[m.position(w)-1] = &now
		return state.Result{Verdict: state.Queued, Wait: &now}
	}
	r := m.decide(c.Path, c.Mode, c.Limit)
	w = &state.Wait{Path: c.Path, Session: c.Session, Handle: c.Handle, Mode: c.Mode, Limit: c.Limit, DelayMS: c.DelayMS}
	if r.Verdict == state.Held {
		r.Hold = m.grant(w)
		return r
	}
	if r.Verdict == state.Conflict || c.Wait == state.NoWait {
		return r
	}
	m.seq++
	w.Seq, w.Keep, w.Since = m.seq, c.Wait == state.Keep, m.now
	l := m.lock(c.Path)
	l.queue = append(l.queue, w)
	return state.Result{Verdict: state.Queued, Wait: w, Position: len(l.queue)}
}

func (m *model) grant(w *state.Wait) *state.Hold {
	m.counter++
	h := &state.Hold{Path: w.Path, Session: w.Session, Handle: w.Handle, Mode: w.Mode, Limit: w.Limit,
		Token: m.counter, GrantedAt: m.now, DelayMS: w.DelayMS, WaitSeq: w.Seq}
	if w.Keep {
		m.seq++
		h.EventSeq = m.seq
	}
	l := m.lock(w.Path)
	l.holders = append(l.holders, h)
	return h
}

func (m *model) handOn(path string) {
	l := m.lock(path)
	for l.delayID == 0 && len(l.queue) > 0 && l.hasRoom(l.queue[0].Mode, l.queue[0].Limit) {
		w := l.queue[0]
		l.queue = l.queue[1:]
		m.emit(state.Event{Kind: state.EventGranted, Hold: m.grant(w), Wait: w})
	}
}

func (m *model) dropHold(h *state.Hold) {
	l := m.lock(h.Path)
	l.holders = slices.DeleteFunc(slices.Clone(l.holders), func(o *state.Hold) bool { return o == h })
	m.emit(state.Event{Kind: state.EventReleased, Hold: h})
}

func (m *model) dropWait(w *state.Wait) {
	l := m.lock(w.Path)
	l.queue = slices.DeleteFunc(slices.Clone(l.queue), func(o *state.Wait) bool { return o == w })
	m.emit(state.Event{Kind: state.EventWithdrawn, Wait: w})
}

func (m *model) release(c state.Command) state.Result {
	if m.session(c.Session) == nil {
		return state.Result{Verdict: state.NoSession}
	}
	h, w := m.claim(c.Session, c.Path, c.Handle)
	switch {
	case h != nil && (c.Token == 0 || c.Token == h.Token):
		m.dropHold(h)
	case w != nil && c.Token == 0:
		m.dropWait(w)
	default:
		return state.Result{Verdict: state.Nothing}
	}
	m.handOn(c.Path)
	return state.Result{Verdict: state.Done}
}

func (m *model) withdraw(c state.Command) state.Result {
	h, w := m.claim(c.Session, c.Path, c.Handle)
	switch {
	case c.Seq == 0, h == nil && w == nil, h != nil && h.WaitSeq != c.Seq, w != nil && w.Seq != c.Seq:
		return state.Result{Verdict: state.Nothing}
	case w != nil && w.Keep:
		return state.Result{Verdict: state.Queued, Wait: w}
	case w != nil:
		m.dropWait(w)
	case !c.Undo || h.EventSeq != 0:
		return state.Result{Verdict: state.Held, Hold: h}
	default:
		m.dropHold(h)
	}
	m.handOn(c.Path)
	return state.Result{Verdict: state.Done}
}
