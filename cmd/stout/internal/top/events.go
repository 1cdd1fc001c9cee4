package top

import (
	"fmt"
	"strings"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// happenings names the types of events in one word.
var happenings = map[lockapi.EventType]string{
	lockapi.EventLockAcquired: "acquired", lockapi.EventLockReleased: "released", lockapi.EventLockContended: "waits",
	lockapi.EventFileCreated: "created", lockapi.EventFileChanged: "changed", lockapi.EventFileDeleted: "deleted",
	lockapi.EventMasterChanged: "master",
}

func happening(t lockapi.EventType) string {
	if word := happenings[t]; word != "" {
		return word
	}
	return format.Clean(string(t))
}

// ends describes the reasons for an end.
var ends = map[string]string{
	lockapi.ReasonReleased: "released", lockapi.ReasonSessionClosed: "its session was closed", lockapi.ReasonSessionExpired: "its session expired",
	lockapi.ReasonForced: "released by force", lockapi.ReasonDeleted: "deleted", lockapi.ReasonSessionEnded: "its session ended",
	lockapi.ReasonDenied: "its session may no longer lock there",
}

func ending(reason string) string {
	if word := ends[reason]; word != "" {
		return word
	}
	return format.Clean(strings.ReplaceAll(reason, "_", " "))
}

// described returns what an event reports beside its type and path.
func described(e *lockapi.CellEvent) string {
	switch {
	case e.Master != nil:
		return fmt.Sprintf("%s is master, epoch %d", format.Clean(e.Master.Master), e.Master.Epoch)
	case e.Hold != nil && e.Type == lockapi.EventLockReleased:
		return called(e.Hold.SessionName, e.Hold.Session) + ", " + ending(e.Reason)
	case e.Hold != nil && e.Hold.Token != 0:
		return fmt.Sprintf("%s, token %d", called(e.Hold.SessionName, e.Hold.Session), e.Hold.Token)
	case e.Hold != nil:
		return called(e.Hold.SessionName, e.Hold.Session)
	case e.Type == lockapi.EventFileDeleted:
		return ending(e.Reason)
	case e.File != nil:
		return fmt.Sprintf("%s, generation %d", format.Bytes(int64(e.File.Size)), e.File.Generation)
	}
	return ""
}

// eventRows returns the events that match the search, newest first.
func (m *Model) eventRows() []*seen {
	search := m.lists[eventsPage].search
	out := make([]*seen, 0, len(m.events))
	for i := range m.events {
		e := &m.events[i]
		if search == "" || matches(search, e.Path, happening(e.Type), described(&e.CellEvent)) {
			out = append(out, e)
		}
	}
	return out
}

var eventColumns = []column[*seen]{
	{title: "SEEN", width: 8, cell: func(m *Model, e *seen) cell { return cell{text: m.timeOfDay(e.at), style: m.paint.dim} }},
	{title: "WHAT", width: 8, cell: (*Model).whatCell},
	{title: "PATH", flex: 16, cell: func(_ *Model, e *seen) cell {
		if e.Master != nil {
			return cell{text: format.Clean(e.Master.Master)}
		}
		return cell{text: format.Clean(e.Path)}
	}},
	{title: "WHO", width: 34, most: 80, rank: 1, cell: func(_ *Model, e *seen) cell {
		if e.Master != nil {
			return cell{text: fmt.Sprintf("is master, in epoch %d", e.Master.Epoch)}
		}
		return cell{text: described(&e.CellEvent)}
	}},
	{title: "REVISION", width: 9, right: true, rank: 2, cell: func(m *Model, e *seen) cell { return cell{text: fmt.Sprint(e.Revision), style: m.paint.dim} }},
}

func (m *Model) whatCell(e *seen) cell {
	c := cell{text: happening(e.Type)}
	switch {
	case e.Type == lockapi.EventMasterChanged, e.Reason == lockapi.ReasonSessionExpired, e.Reason == lockapi.ReasonForced:
		c.style = m.paint.warn
	case e.Type == lockapi.EventLockAcquired:
		c.style = m.paint.good
	}
	return c
}
