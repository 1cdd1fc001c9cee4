package top

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Messages of the scenarios: what was read of a cell, and what the user does.
type (
	Tick   time.Time
	Size   struct{ Width, Height int }
	Key    struct{ Name, Text string }
	Looked struct {
		At   time.Time
		Look Look
		Err  *Trouble
	}
	Membered struct {
		At      time.Time
		Members Members
		Err     *Trouble
	}
	Happened struct {
		At     time.Time
		Events []lockapi.CellEvent
	}
	Missed  struct{ At time.Time }
	Unheard struct {
		At  time.Time
		Err *Trouble
	}
	LocksRead struct {
		Part
		Locks []lockapi.Lock
	}
	AgainRead struct {
		At    time.Time
		Locks []lockapi.Lock
	}
	SessionsRead struct {
		Part
		Sessions []lockapi.SessionState
	}
	DirRead struct {
		Part
		Entries []client.DirEntry
	}
	DetailRead struct {
		Of   Subject
		Text string
		Err  *Trouble
	}
	// Part describes a reading of a list.
	Part struct {
		Of        string
		Began, At time.Time
		Cut       bool
		Err       *Trouble
	}
)

// of returns the content of a list.
func of[T any](m *Model, p Part, items []T) content[T] {
	return content[T]{scope: scope{of: p.Of, missed: m.missed, whole: true}, began: p.Began, at: p.At, items: items, cut: p.Cut, err: p.Err}
}

// send gives a model one message.
func send(m *Model, msg any) {
	switch msg := msg.(type) {
	case Tick:
		m.Update(tick(msg))
	case Size:
		m.Update(tea.WindowSizeMsg{Width: msg.Width, Height: msg.Height})
	case Key:
		m.press(msg.Name, msg.Text)
	case DetailRead:
		if msg.Of == m.detail {
			m.read = reading{of: msg.Of, at: start, text: msg.Text, err: msg.Err}
		}
	default:
		m.Update(occurred{func(m *Model) { apply(m, msg) }})
	}
}

func apply(m *Model, msg any) {
	switch msg := msg.(type) {
	case Looked:
		m.looked(msg.At, msg.Look, msg.Err)
	case Membered:
		if m.noMembers = msg.Err; msg.Err == nil {
			m.members, m.membersAt = msg.Members, msg.At
		}
	case Happened:
		for _, e := range msg.Events {
			m.happened(msg.At, e)
		}
	case Missed:
		m.miss(msg.At)
	case Unheard:
		m.unheard = msg.Err
	case LocksRead:
		m.locks.add(m, of(m, msg.Part, msg.Locks))
	case AgainRead:
		for _, l := range msg.Locks {
			m.locks.put(l, msg.At, msg.At)
		}
	case SessionsRead:
		m.sessions.add(m, of(m, msg.Part, msg.Sessions))
	case DirRead:
		m.files.add(m, of(m, msg.Part, msg.Entries))
	}
}

// newModel returns a model that reads nothing by itself.
func newModel(colour bool) *Model {
	m := New(nil, nil, colour, time.UTC)
	m.jobs = nil
	return m
}
