package master

import (
	"context"
	"errors"
	"slices"
	"time"

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
	by      Caller
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
	return EventFilter{filter: events.NewFilter(paths, prefixes, kinds), content: content}, nil
}

// For is the filter for a caller, who is judged each time: what he may not read is
// left out.
func (f EventFilter) For(by Caller) EventFilter {
	f.by = by
	return f
}

// GetRevision reads the cell's present revision. Linearizable, it is that of every
// change which was acknowledged before the call, or a later one.
func (m *Master) GetRevision(ctx context.Context, r *Read, _ *lockapi.GetRevision) (uint64, error) {
	return read(ctx, m, r, func(_ *office, s *state.State) (uint64, error) { return s.Revision, nil })
}

// EventWatch reads events that pass its filter, and wakes its reader for these and
// for nothing else. One goroutine uses it, and closes it.
type EventWatch interface {
	// Read returns those after a revision, in order, from this replica's own log:
	// at most limit of them, and no more than make about so many bytes, but one at
	// least. Everything is told up to the revision that it returns, which is never
	// below after; the next call goes on from there. The errors are compacted, those of
	// a caller that may not watch any more, and no_master where the replica does not
	// answer by its own state any more.
	Read(after uint64, limit, bytes int) ([]lockapi.CellEvent, uint64, error)
	// Bounds returns the smallest revision after which Read answers, and the one up to
	// which this replica shows events.
	Bounds() (oldest, told uint64)
	// Ready has a value when there may be more, and when the caller's credential or the
	// replica's right to answer has ended. Wait for it after a Read that has found
	// nothing.
	Ready() <-chan struct{}
	Close()
}

// WatchEvents makes a watch of this replica's own log. The error is that of the first
// Read on a replica that does not answer by its own state.
func (m *Master) WatchEvents(f EventFilter) (EventWatch, error) {
	s, _, err := m.ownState()
	if err != nil {
		return nil, err
	}
	if err := f.by.identify(s); err != nil {
		return nil, err
	}
	return &eventWatch{Watch: m.log.Events().WatchAs(f.by.who(), f.filter), m: m, f: f}, nil
}

type eventWatch struct {
	*events.Watch
	m *Master
	f EventFilter

	ending *time.Timer // wakes the reader when it may have to stop; nil if that is not known
	end    time.Time   // for which it is set
}

func (w *eventWatch) Close() {
	if w.ending != nil {
		w.ending.Stop()
	}
	w.Watch.Close()
}

// wakeAt wakes the reader then, or sooner: it looks again.
func (w *eventWatch) wakeAt(end time.Time) {
	now := time.Now()
	if !end.IsZero() && now.Before(w.end) && !end.Before(w.end) {
		return
	}
	if w.ending != nil {
		w.ending.Stop()
	}
	if w.ending, w.end = nil, end; !end.IsZero() {
		w.ending = time.AfterFunc(end.Sub(now), w.Watch.Wake)
	}
}

func (w *eventWatch) Read(after uint64, limit, bytes int) ([]lockapi.CellEvent, uint64, error) {
	found, upTo, err := w.visible(after, limit)
	if err != nil {
		return nil, upTo, err
	}
	told, upTo := w.m.eventsOf(found, upTo, w.f.content, bytes)
	return told, upTo, nil
}

// eventsOf shows the first of the events that were found, and up to which revision
// all are shown.
func (m *Master) eventsOf(found []events.Event, upTo uint64, content bool, bytes int) ([]lockapi.CellEvent, uint64) {
	var present *state.State
	if content {
		present = m.log.State()
	}
	told, size := make([]lockapi.CellEvent, 0, len(found)), 0
	for _, e := range found {
		one := cellEventOf(e, present)
		if size += contentBytes(&one); size > bytes && len(told) > 0 {
			return told, told[len(told)-1].Revision
		}
		told = append(told, one)
	}
	return told, upTo
}

// visible are the next events that the caller may read, as far as there are any. He
// is judged each time, when they have been found: by a state that is not behind them,
// so that who has lost a right is told nothing that came about later.
func (w *eventWatch) visible(after uint64, limit int) ([]events.Event, uint64, error) {
	by := &w.f.by
	for {
		found, upTo, gone := w.Watch.Read(after, limit)
		s, left, err := w.m.ownState()
		if err != nil {
			return nil, after, err
		}
		if !by.free(s) {
			if err := judge(s, by); err != nil {
				return nil, after, err
			}
		}
		end := by.end(s)
		if left > 0 && (end.IsZero() || time.Until(end) > left) {
			end = time.Now().Add(left)
		}
		w.wakeAt(end)
		if gone != nil {
			return nil, upTo, errCompacted(gone)
		}
		none := len(found) == 0 // or else the watch is not waited for yet
		if s.AccessOn {
			found = slices.DeleteFunc(found, func(e events.Event) bool { return e.Path != "" && !by.sees(s, e.Path) })
		}
		if len(found) > 0 || none {
			return found, upTo, nil
		}
		after = upTo
	}
}

// contentBytes is about what an event's content takes in JSON.
func contentBytes(e *lockapi.CellEvent) int {
	switch {
	case e.File == nil:
		return 0
	case e.File.Content != nil:
		return textSize(*e.File.Content)
	}
	return (len(e.File.ContentBase64) + 2) / 3 * 4
}

func errCompacted(err error) error {
	var gone *events.Compacted
	if !errors.As(err, &gone) {
		return err
	}
	return ErrCompacted(gone.Oldest, gone.Revision, "events up to revision %d are not kept any more: read what matters, which is as of revision %d or later, and go on from there", gone.Oldest, gone.Revision)
}

// ErrCompacted returns the error for a caller that has to read the state before it goes on.
func ErrCompacted(oldest, present uint64, format string, args ...any) *lockapi.Error {
	e := lockapi.Errorf(lockapi.CodeCompacted, format, args...)
	e.Compacted = lockapi.Compacted{Oldest: oldest, Revision: present}
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
		out.Hold = eventHoldOf(e.Hold(), e.Owner().Name)
	case e.Wait() != nil:
		w := e.Wait()
		out.Hold = &lockapi.EventHold{Session: w.Session, SessionName: e.Owner().Name, Handle: w.Handle, Mode: mode(w.Mode)}
	default:
		epoch, id := e.Master()
		out.Master = &lockapi.EventMaster{Epoch: epoch, Master: id}
	}
	return out
}
