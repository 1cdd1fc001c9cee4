package lockapi

import (
	"encoding/json"
	"slices"
)

// RouteEvents is the route of the cell's events.
const RouteEvents = "/v1/events"

// Names of a stream of server-sent events.
const (
	TypeEventStream   = "text/event-stream"
	HeaderLastEventID = "Last-Event-ID" // counts as the parameter after, and goes before it
	StreamBookmark    = "bookmark"      // a Bookmark: nothing that was asked for lies up to it
	StreamCompacted   = "compacted"     // a Compacted, and the end
	StreamDenied      = "denied"        // the caller may not watch any more, and the end
)

// MaxBookmarkMS is how long a stream says nothing at most.
const MaxBookmarkMS = 10_000

// EventType says what an event is of.
type EventType string

// The types. EventMasterChanged passes whatever filter.
const (
	EventFileCreated   EventType = "file_created"
	EventFileChanged   EventType = "file_changed"
	EventFileDeleted   EventType = "file_deleted"
	EventLockAcquired  EventType = "lock_acquired"
	EventLockReleased  EventType = "lock_released"
	EventLockContended EventType = "lock_contended" // a waiter came where none was behind the hold
	EventMasterChanged EventType = "master_changed"
)

// Subject is what an event is about.
type Subject uint8

// The subjects. The zero Subject is that of an unknown type.
const (
	SubjectFile Subject = iota + 1
	SubjectLock
	SubjectMaster
)

// eventTypes has a row for each type.
var eventTypes = []struct {
	of Subject
	t  EventType
}{
	{SubjectFile, EventFileCreated}, {SubjectFile, EventFileChanged}, {SubjectFile, EventFileDeleted},
	{SubjectLock, EventLockAcquired}, {SubjectLock, EventLockReleased}, {SubjectLock, EventLockContended},
	{SubjectMaster, EventMasterChanged},
}

// Subject returns what events of the type are about.
func (t EventType) Subject() Subject {
	for _, row := range eventTypes {
		if row.t == t {
			return row.of
		}
	}
	return 0
}

// EventTypes returns the types of events about any of the subjects; all types where
// none is given.
func EventTypes(of ...Subject) (types []EventType) {
	for _, row := range eventTypes {
		if len(of) == 0 || slices.Contains(of, row.of) {
			types = append(types, row.t)
		}
	}
	return types
}

// Why a file was deleted, or a lock released.
const (
	ReasonDeleted        = "deleted"
	ReasonSessionEnded   = "session_ended"
	ReasonReleased       = "released"
	ReasonSessionClosed  = "session_closed"
	ReasonSessionExpired = "session_expired"
	ReasonForced         = "forced"
)

// CellEvent is one change of the cell. In JSON its parts are one flat object.
type CellEvent struct {
	Revision uint64
	Type     EventType
	Path     string // of the node; empty for EventMasterChanged
	Reason   string // of EventFileDeleted and EventLockReleased
	// File is of the events of files: the stat, and the content where that was
	// asked for and is there still. Its path and revision are the event's, also
	// of a deletion; whatever else that has is as it was before.
	File *File
	// Hold is of the events of locks: the grant, or who waits.
	Hold *EventHold
	// Master is of EventMasterChanged.
	Master *EventMaster
}

// EventHold is a grant, or a request that waits, which has no token.
type EventHold struct {
	Session     string `json:"session"`
	SessionName string `json:"session_name"`
	Handle      string `json:"handle"`
	Mode        Mode   `json:"mode"`
	Token       uint64 `json:"token,omitempty"`
}

// EventMaster is a new master.
type EventMaster struct {
	Epoch  uint64 `json:"epoch"`
	Master string `json:"master"` // its id
}

// eventHead is what every event has.
type eventHead struct {
	Revision uint64    `json:"revision"`
	Type     EventType `json:"type"`
	Path     string    `json:"path,omitempty"`
	Reason   string    `json:"reason,omitempty"`
}

// MarshalJSON writes the flat object. The head's fields go before those of the
// same name in a part.
func (e CellEvent) MarshalJSON() ([]byte, error) {
	head := eventHead{e.Revision, e.Type, e.Path, e.Reason}
	switch {
	case e.File != nil:
		type file struct { // one level deeper than the head's fields
			*File
		}
		return json.Marshal(struct {
			eventHead
			file
		}{head, file{e.File}})
	case e.Hold != nil:
		return json.Marshal(struct {
			eventHead
			*EventHold
		}{head, e.Hold})
	case e.Master != nil:
		return json.Marshal(struct {
			eventHead
			*EventMaster
		}{head, e.Master})
	}
	return json.Marshal(head)
}

// flatEvent has all fields that an event may have: most watchers read one for each
// change, so it is read in one pass.
type flatEvent struct {
	Type   EventType `json:"type"`
	Reason string    `json:"reason"`
	File
	SessionName string `json:"session_name"`
	Handle      string `json:"handle"`
	Mode        Mode   `json:"mode"`
	Token       uint64 `json:"token"`
	Epoch       uint64 `json:"epoch"`
	Master      string `json:"master"`
}

// UnmarshalJSON reads the flat object. Of a type that it does not know it reads
// what every event has.
func (e *CellEvent) UnmarshalJSON(b []byte) error {
	var all flatEvent
	if json.Unmarshal(b, &all) != nil {
		return e.readParts(b)
	}
	*e = CellEvent{Revision: all.Revision, Type: all.Type, Path: all.Path, Reason: all.Reason}
	switch all.Type.Subject() {
	case SubjectFile:
		e.File = &all.File
	case SubjectLock:
		e.Hold = &EventHold{Session: all.Session, SessionName: all.SessionName, Handle: all.Handle, Mode: all.Mode, Token: all.Token}
	case SubjectMaster:
		e.Master = &EventMaster{Epoch: all.Epoch, Master: all.Master}
	}
	return nil
}

// readParts reads what the type has, and nothing else: what is not known here may have
// a name that is something else in another type.
func (e *CellEvent) readParts(b []byte) error {
	var head eventHead
	if err := json.Unmarshal(b, &head); err != nil {
		return err
	}
	*e = CellEvent{Revision: head.Revision, Type: head.Type, Path: head.Path, Reason: head.Reason}
	switch head.Type.Subject() {
	case SubjectFile:
		return json.Unmarshal(b, &e.File)
	case SubjectLock:
		return json.Unmarshal(b, &e.Hold)
	case SubjectMaster:
		return json.Unmarshal(b, &e.Master)
	}
	return nil
}

// EventList answers a call for events as JSON: told is everything up to
// Revision, which the next call goes on after.
type EventList struct {
	Events   []CellEvent `json:"events"`
	Revision uint64      `json:"revision"`
}

// Bookmark reports that everything up to Revision was sent. Cell is the id of the cell that
// the revision belongs to: in another cell it counts other changes.
type Bookmark struct {
	Revision uint64 `json:"revision"`
	Cell     string `json:"cell"`
}

// Compacted says that the events after the revision that was asked for are not
// kept any more, or that it has not been reached: Oldest is the smallest that can still
// be asked for, Revision the present one.
type Compacted struct {
	Oldest   uint64 `json:"oldest"`
	Revision uint64 `json:"revision"`
}
