package top

import (
	"fmt"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// eventRow is an event and when it was received; zero if it is older than stout
// top.
type eventRow = record[lockapi.CellEvent]

func newEvents() *list[lockapi.CellEvent] {
	return &list[lockapi.CellEvent]{
		title: "Events", noun: [2]string{"event", "events"}, none: "No change%s that the replica remembers.", known: true,
		records: map[string]*eventRow{}, key: eventKey, columns: eventColumns,
		orders: []order[lockapi.CellEvent]{{"time, newest first", func(_ *Model, a, b *eventRow) int { return b.seq - a.seq }}},
		matches: func(r *eventRow, search string) bool {
			return contains(search, r.item.Path, format.EventWord(r.item.Type), format.Event(&r.item))
		},
		open: func(m *Model, r *eventRow, _ string) {
			switch r.item.Type.Subject() {
			case lockapi.SubjectLock:
				m.closely(Subject{Lock, r.item.Path})
			case lockapi.SubjectFile:
				m.closely(Subject{File, r.item.Path})
			}
		},
	}
}

// addEvent adds an event and drops the oldest one beyond the limit. A cursor on
// the newest event stays on the newest one.
func (m *Model) addEvent(at time.Time, e lockapi.CellEvent) {
	l := m.events
	m.counted++
	r := &eventRow{item: e, read: at, seq: m.counted}
	l.records[eventKey(r)] = r
	delete(l.records, eventKey(&eventRow{seq: m.counted - mostEvents}))
	if l.sorted = nil; l.cur.at == 0 {
		l.cur.key = ""
	}
}

func eventKey(r *eventRow) string { return fmt.Sprint(r.seq) }

var eventColumns = []column[*eventRow]{
	{title: "SEEN", width: 8, cell: func(m *Model, e *eventRow) cell {
		if e.read.IsZero() {
			return cell{text: "earlier", style: m.paint.Faint}
		}
		return cell{text: m.timeOfDay(e.read), style: m.paint.Faint}
	}},
	{title: "WHAT", width: 8, cell: (*Model).whatCell},
	{title: "PATH", flex: 16, cell: func(_ *Model, e *eventRow) cell {
		if e.item.Master != nil {
			return cell{text: format.Clean(e.item.Master.Master)}
		}
		return cell{text: format.Clean(e.item.Path)}
	}},
	{title: "WHO", width: 34, most: 80, rank: 1, cell: func(_ *Model, e *eventRow) cell {
		if e.item.Master != nil {
			return cell{text: fmt.Sprintf("is master, in epoch %d", e.item.Master.Epoch)}
		}
		return cell{text: format.Event(&e.item)}
	}},
	{title: "REVISION", width: 9, right: true, rank: 2, cell: func(m *Model, e *eventRow) cell { return cell{text: fmt.Sprint(e.item.Revision), style: m.paint.Faint} }},
}

func (m *Model) whatCell(e *eventRow) cell {
	c := cell{text: format.EventWord(e.item.Type)}
	switch {
	case e.item.Type == lockapi.EventMasterChanged, e.item.Reason == lockapi.ReasonSessionExpired, e.item.Reason == lockapi.ReasonForced:
		c.style = m.paint.Warn
	case e.item.Type == lockapi.EventLockAcquired:
		c.style = m.paint.OK
	}
	return c
}
