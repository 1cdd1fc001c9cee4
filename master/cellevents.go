package master

import (
	"context"
	"errors"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/state"
)

// EventFilter says which events of the cell are asked for, and whether with the
// contents of files. Make it once for a watcher, with NewEventFilter. It is
// immutable.
type EventFilter struct {
	filter  events.Filter
	content bool
}

// NewEventFilter makes a filter of those nodes that any of the paths or prefixes
// names, all where there are none, and of these types, all where there are none. An
// unknown type is an invalid_argument.
func NewEventFilter(paths, prefixes []string, types []lockapi.EventType, content bool) (EventFilter, error) {
	var kinds []events.Type
	for _, name := range types {
		kind, ok := events.ParseType(string(name))
		if !ok {
			return EventFilter{}, lockapi.Invalid("types", "there is no type of events %q", lockapi.Clip(string(name)))
		}
		kinds = append(kinds, kind)
	}
	return EventFilter{events.NewFilter(paths, prefixes, kinds), content}, nil
}

// Revision is the cell's present one. Linearizable, it is that of every change which
// was acknowledged before the call, or a later one.
func (m *Master) Revision(ctx context.Context, r Read) (uint64, error) {
	return read(ctx, m, r, func(_ *office, s *state.State) (uint64, error) { return s.Revision, nil })
}

// EventsChanged is closed when there may be more events than the last Events has
// told. Get it before.
func (m *Master) EventsChanged() <-chan struct{} { return m.log.Events().Changed() }

// Events are those after a revision that pass the filter, in order, from this
// replica's own log: at most limit of them, and no more than make about so many
// bytes, but one at least. Everything is told up to the revision that it returns, which
// is never below after; the next call goes on from there. The error is compacted.
func (m *Master) Events(f EventFilter, after uint64, limit, bytes int) ([]lockapi.CellEvent, uint64, error) {
	found, upTo, err := m.log.Events().Read(after, f.filter, limit)
	if err != nil {
		return nil, upTo, errCompacted(err)
	}
	var present *state.State
	if f.content {
		present = m.log.State()
	}
	told, size := make([]lockapi.CellEvent, 0, len(found)), 0
	for _, e := range found {
		one := cellEventOf(e, present)
		if size += contentBytes(&one); size > bytes && len(told) > 0 {
			return told, told[len(told)-1].Revision, nil
		}
		told = append(told, one)
	}
	return told, upTo, nil
}

// contentBytes is about what an event's content takes in JSON.
func contentBytes(e *lockapi.CellEvent) int {
	switch {
	case e.File == nil:
		return 0
	case e.File.Content != nil:
		return len(*e.File.Content)
	}
	return len(e.File.ContentBase64) * 4 / 3
}

func errCompacted(err error) error {
	var gone *events.Compacted
	if !errors.As(err, &gone) {
		return err
	}
	e := lockapi.Errorf(lockapi.CodeCompacted, "events up to revision %d are not kept any more: read what matters, which is as of revision %d or later, and go on from there", gone.Oldest, gone.Revision)
	e.Compacted = lockapi.Compacted{Oldest: gone.Oldest, Revision: gone.Revision}
	return e
}

// cellEventOf shows an event, with the content of its file where the present state
// is given and has it still.
func cellEventOf(e events.Event, present *state.State) lockapi.CellEvent {
	out := lockapi.CellEvent{Revision: e.Revision, Type: lockapi.EventType(e.Type.String()), Path: e.Path, Reason: e.Reason()}
	switch {
	case e.File() != nil:
		content, with := []byte(nil), false
		if present != nil {
			content, with = e.Content(present)
		}
		f := FileOf(statOf(e.File()), content, with)
		f.Revision = e.Revision
		out.File = &f
	case e.Hold() != nil:
		h := e.Hold()
		out.Hold = &lockapi.EventHold{Session: h.Session, SessionName: e.SessionName(), Handle: h.Handle, Mode: mode(h.Mode), Token: h.Token}
	case e.Wait() != nil:
		w := e.Wait()
		out.Hold = &lockapi.EventHold{Session: w.Session, SessionName: e.SessionName(), Handle: w.Handle, Mode: mode(w.Mode)}
	default:
		epoch, id := e.Master()
		out.Master = &lockapi.EventMaster{Epoch: epoch, Master: id}
	}
	return out
}
