package master

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/state"
)

// EventFilter selects events of the cell, with or without the contents of
// files. Make it once for a watcher, with NewEventFilter. It is immutable.
type EventFilter struct {
	filter  events.Filter
	content bool
	by      Caller
}

// NewEventFilter makes a filter for the nodes that match any path or prefix,
// and for the event types. An empty list selects everything. An unknown type is
// an invalid_argument.
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

// For returns the filter for a caller. Each read checks the caller again and
// leaves out what it may not read.
func (f EventFilter) For(by Caller) EventFilter {
	f.by = by
	return f
}

// GetRevision reads the cell's present revision. A linearizable read includes
// every change that was acknowledged before the call.
func (m *Master) GetRevision(ctx context.Context, r *Read, _ *lockapi.GetRevision) (uint64, error) {
	return read(ctx, m, r, func(_ *office, s *state.State) (uint64, error) { return s.Revision, nil })
}

// EventWatch reads the events that pass its filter, and wakes its reader for
// these only. One goroutine uses it, and closes it.
type EventWatch interface {
	// Read returns the events after a revision, in order, from this
	// replica's own log: at most limit of them and about so many bytes, but
	// at least one. All matching events up to the returned revision are
	// included; it is never below after, and the next call continues from
	// it. The errors are compacted, the refusal of a caller that may not
	// watch any more, and no_master if the replica may no longer answer
	// from its own state. The next Read may overwrite the events; what they
	// refer to is shared and must not be changed.
	Read(after uint64, limit, bytes int) ([]lockapi.CellEvent, uint64, error)
	// Bounds returns the smallest revision after which Read answers, and
	// the revision up to which this replica shows events.
	Bounds() (oldest, newest uint64)
	// Ready has a value when there may be more events than the last Read
	// returned, when the caller's credential has expired, or when the
	// replica may no longer answer. Wait for it after a Read.
	Ready() <-chan struct{}
	Close()
}

// WatchEvents makes a watch of this replica's own log. If the replica may not
// answer from its own state, it returns the error of Read.
func (m *Master) WatchEvents(f EventFilter) (EventWatch, error) {
	s, _, err := m.ownState()
	if err != nil {
		return nil, err
	}
	if err := f.by.identify(s); err != nil {
		return nil, err
	}
	return &eventWatch{Watch: m.log.Events().WatchAs(f.by.who().Identity(), f.filter), m: m, f: f}, nil
}

type eventWatch struct {
	*events.Watch
	m *Master
	f EventFilter

	shown  []lockapi.CellEvent // by the last Read; a few are kept
	ending *time.Timer         // wakes the reader when it may have to stop; nil if that is not known
	end    time.Time           // when ending fires
}

func (w *eventWatch) Close() {
	if w.ending != nil {
		w.ending.Stop()
	}
	w.Watch.Close()
}

// wakeAt wakes the reader at end or earlier; the reader then checks again.
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

// fewShown bounds the events for which a watch keeps memory.
const fewShown = 4

func (w *eventWatch) Read(after uint64, limit, bytes int) ([]lockapi.CellEvent, uint64, error) {
	found, upTo, err := w.visible(after, limit)
	if err != nil || len(found) == 0 {
		return nil, upTo, err
	}
	shown, upTo := w.m.eventsOf(w.shown[:0], found, upTo, w.f.content, bytes)
	if len(shown) < len(found) {
		w.Wake()
	}
	if w.shown = shown; cap(shown) > fewShown {
		w.shown = nil
	}
	return shown, upTo, nil
}

// eventsOf appends events up to the given size, and returns the revision up to
// which all are shown.
func (m *Master) eventsOf(shown []lockapi.CellEvent, found []events.Event, upTo uint64, content bool, bytes int) ([]lockapi.CellEvent, uint64) {
	if !content {
		for i := range found {
			shown = append(shown, *m.converted.of(&found[i]))
		}
		return shown, upTo
	}
	present, size := m.log.State(), 0
	for i := range found {
		one := cellEventOf(&found[i], present)
		if size += contentBytes(&one); size > bytes && len(shown) > 0 {
			return shown, shown[len(shown)-1].Revision
		}
		shown = append(shown, one)
	}
	return shown, upTo
}

// convertedEvents caches the latest events without contents in the form of the
// contract, for all watches together. It is safe for concurrent use.
type convertedEvents [64]atomic.Pointer[lockapi.CellEvent]

func (c *convertedEvents) of(e *events.Event) *lockapi.CellEvent {
	kept := &c[e.Revision%uint64(len(c))]
	if k := kept.Load(); k != nil && k.Revision == e.Revision {
		return k
	}
	one := cellEventOf(e, nil)
	kept.Store(&one)
	return &one
}

// visible returns the next events that the caller may read, if there are any.
// It checks the caller after the events were found, by a state that is not
// behind them. So a caller that has lost a right receives nothing that happened
// later.
func (w *eventWatch) visible(after uint64, limit int) ([]events.Event, uint64, error) {
	by := &w.f.by
	for {
		found, upTo, gone := w.Watch.Read(after, limit)
		s, left, err := w.m.ownState()
		if err != nil {
			return nil, after, err
		}
		if err := w.m.opts.authorize(s, by); err != nil {
			return nil, after, err
		}
		end := by.end(s)
		if left > 0 && (end.IsZero() || time.Until(end) > left) {
			end = time.Now().Add(left)
		}
		w.wakeAt(end)
		if gone != nil {
			return nil, upTo, errCompacted(gone)
		}
		none := len(found) == 0 // if the caller may read none of these events, read further
		if s.AccessOn {
			found = slices.DeleteFunc(found, func(e events.Event) bool { return e.Path != "" && !by.who().MayRead(s, e.Path) })
		}
		if len(found) > 0 || none {
			return found, upTo, nil
		}
		after = upTo
	}
}

// contentBytes estimates the size of an event's content in JSON.
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
	return ErrCompacted(gone.Oldest, gone.Revision, "events up to revision %d are no longer kept: read the state you need, at revision %d or later, and continue from there", gone.Oldest, gone.Revision)
}

// ErrCompacted returns the error for a caller that must read the state before
// it continues.
func ErrCompacted(oldest, present uint64, format string, args ...any) *lockapi.Error {
	e := lockapi.Errorf(lockapi.CodeCompacted, format, args...)
	e.Compacted = lockapi.Compacted{Oldest: oldest, Revision: present}
	return e
}

// cellEventOf converts an event. It includes the file's content if the present
// state is given and still has it.
func cellEventOf(e *events.Event, present *state.State) lockapi.CellEvent {
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
