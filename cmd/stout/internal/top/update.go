package top

import (
	"fmt"
	"slices"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// Update handles one message. While paused, messages about the cell are kept
// for later, except readings of the open subject.
func (m *Model) Update(msg any) {
	switch msg := msg.(type) {
	case Tick:
		m.clock = time.Time(msg)
		if !m.paused {
			m.now = m.clock
			m.fade()
		}
	case Size:
		m.width, m.height = msg.Width, msg.Height
	case Key:
		m.press(msg)
	case DetailRead:
		if msg.Of == m.detail {
			m.reading = reading{of: msg.Of, at: msg.At, Detailed: msg.Detailed}
		}
	default:
		if m.paused {
			m.hold(msg)
		} else {
			m.apply(msg)
		}
	}
}

// hold keeps a message until the pause ends: all events up to a limit, and the
// last message of other types.
func (m *Model) hold(msg any) {
	switch msg.(type) {
	case Looked, Membered, Unheard:
		m.held = slices.DeleteFunc(m.held, func(old any) bool { return fmt.Sprintf("%T", old) == fmt.Sprintf("%T", msg) })
	}
	m.held = append(m.held, msg)
	if len(m.held) > mostEvents {
		m.held, m.dropped = m.held[1:], true
	}
}

// resume ends a pause.
func (m *Model) resume() {
	held, dropped := m.held, m.dropped
	m.paused, m.held, m.dropped, m.now = false, nil, false, m.clock
	for _, msg := range held {
		m.apply(msg)
	}
	if dropped {
		m.apply(Missed{At: m.now})
	}
	m.fade()
}

// apply handles a message about the cell.
func (m *Model) apply(msg any) {
	switch msg := msg.(type) {
	case Looked:
		m.looked(msg)
	case Membered:
		if m.noMembers = msg.Err; msg.Err == nil {
			m.members, m.membersAt, m.cycles = msg.Members, msg.At, msg.Cycles
		}
	case Happened:
		for i := range msg.Events {
			m.happened(msg.At, msg.Events[i])
		}
	case Missed:
		m.missed++
		m.note(msg.At, "Some changes were missed, because the replicas no longer keep them. Reading everything again.")
	case Unheard:
		m.unheard = msg.Err
	case LocksRead:
		m.locksRead(msg)
	case AgainRead:
		for _, l := range msg.Locks {
			m.putLock(l, msg.At, msg.At)
		}
		m.locks.sorted = nil
	case SessionsRead:
		m.sessionsRead(msg)
	case DirRead:
		m.dirRead(msg)
	}
}

func (m *Model) looked(l Looked) {
	if l.Err != nil {
		if m.lost == nil {
			m.lostSince = l.At
		}
		m.lost = l.Err
		return
	}
	if m.lost != nil && !m.lost.Denied && !m.lookedAt.IsZero() {
		m.note(l.At, fmt.Sprintf("The cell answers again, after %s.", format.Human(l.At.Sub(m.lostSince))))
	}
	m.lost, m.look, m.lookedAt = nil, l.Look, l.At
	if c := l.Look.Cell; inOffice(c) {
		m.turn(l.At, c.Master.ID, c.Epoch)
	}
}

// turn records the master.
func (m *Model) turn(at time.Time, id string, epoch uint64) {
	if m.master == id {
		return
	}
	if m.master != "" {
		m.note(at, fmt.Sprintf("%s is master now, epoch %d, after %s. Sessions and locks stay.", format.Clean(id), epoch, format.Clean(m.master)))
		m.notes[len(m.notes)-1].turn = true
	}
	m.master = id
}

// note shows a line above the page for some time. There are at most two.
func (m *Model) note(at time.Time, text string) {
	m.notes = append(m.notes, note{at: at, text: text})
	m.notes = m.notes[max(0, len(m.notes)-2):]
}

// fade drops outdated notes and freed locks.
func (m *Model) fade() {
	m.notes = slices.DeleteFunc(m.notes, func(n note) bool { return m.now.Sub(n.at) > noteFor })
	for path, row := range m.locks.rows {
		if !row.freed.IsZero() && m.now.Sub(row.freed) > traceFor {
			delete(m.locks.rows, path)
			m.locks.sorted = nil
		}
	}
}

func (m *Model) happened(at time.Time, e lockapi.CellEvent) {
	m.events = slices.Insert(m.events, 0, seen{at: at, CellEvent: e})
	m.events = m.events[:min(len(m.events), mostEvents)]
	m.lists[eventsPage].grew()
	switch e.Type.Subject() {
	case lockapi.SubjectMaster:
		if e.Master != nil {
			m.turn(at, e.Master.Master, e.Master.Epoch)
		}
	case lockapi.SubjectLock:
		m.lockEvent(at, e)
	case lockapi.SubjectFile:
		m.fileEvent(at, e)
	}
	if e.Path != "" && e.Path == m.detail.Name || m.detail.Kind == sessionKind && e.Hold != nil && e.Hold.Session == m.detail.Name {
		m.nudge++
	}
}
