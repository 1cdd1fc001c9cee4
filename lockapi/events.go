package lockapi

import (
	"encoding/json"
	"slices"
)

// RouteEvents is the route of the cell's events.
const RouteEvents = "/v1/events"

// Names in a stream of server-sent events.
const (
	TypeEventStream   = "text/event-stream"
	HeaderLastEventID = "Last-Event-ID" // equivalent to the parameter after, which it overrides
	StreamBookmark    = "bookmark"      // a Bookmark: all requested events up to it were sent
	StreamCompacted   = "compacted"     // a Compacted; the stream ends
	StreamDenied      = "denied"        // the caller lost the right to watch; the stream ends
)

// MaxBookmarkMS is the longest time without output on a stream.
const MaxBookmarkMS = 10_000

// EventType names the kind of an event.
type EventType string

// The types. EventMasterChanged passes every filter.
const (
	EventFileCreated   EventType = "file_created"
	EventFileChanged   EventType = "file_changed"
	EventFileDeleted   EventType = "file_deleted"
	EventLockAcquired  EventType = "lock_acquired"
	EventLockReleased  EventType = "lock_released"
	EventLockContended EventType = "lock_contended" // a waiter joined the queue of a held lock as the next one
	EventMasterChanged EventType = "master_changed"
)

// Subject is the kind of thing that an event describes.
type Subject uint8

// The subjects. The zero Subject belongs to an unknown type.
const (
	SubjectFile Subject = iota + 1
	SubjectLock
	SubjectMaster
)

var eventTypes = []struct {
	of Subject
	t  EventType
}{
	{SubjectFile, EventFileCreated}, {SubjectFile, EventFileChanged}, {SubjectFile, EventFileDeleted},
	{SubjectLock, EventLockAcquired}, {SubjectLock, EventLockReleased}, {SubjectLock, EventLockContended},
	{SubjectMaster, EventMasterChanged},
}

// Subject returns the subject of the type's events.
func (t EventType) Subject() Subject {
	for _, row := range eventTypes {
		if row.t == t {
			return row.of
		}
	}
	return 0
}

// EventTypes returns the types of events about the given subjects, or all types
// if no subject is given.
func EventTypes(of ...Subject) (types []EventType) {
	for _, row := range eventTypes {
		if len(of) == 0 || slices.Contains(of, row.of) {
			types = append(types, row.t)
		}
	}
	return types
}

// Reasons why a file was deleted or a lock released.
const (
	ReasonDeleted        = "deleted"
	ReasonSessionEnded   = "session_ended"
	ReasonReleased       = "released"
	ReasonSessionClosed  = "session_closed"
	ReasonSessionExpired = "session_expired"
	ReasonForced         = "forced"
)

// CellEvent is one change in the cell. In JSON its parts form one flat object.
type CellEvent struct {
	Revision uint64
	Type     EventType
	Path     string // path of the node; empty for EventMasterChanged
	Reason   string // set for EventFileDeleted and EventLockReleased
	// File is set for events of files: the stat, and the content if it was
	// requested and still exists. Its path and revision are the event's, even
	// for a deletion; the other fields of a deleted file describe it before the
	// deletion.
	File *File
	// Hold is set for events of locks: the grant or the waiter.
	Hold *EventHold
	// Master is set for EventMasterChanged.
	Master *EventMaster
}

// EventHold is a grant, or a waiting request, which has no token.
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
	Master string `json:"master"` // id of the master
}

// eventHead has the fields common to all events.
type eventHead struct {
	Revision uint64    `json:"revision"`
	Type     EventType `json:"type"`
	Path     string    `json:"path,omitempty"`
	Reason   string    `json:"reason,omitempty"`
}

// MarshalJSON writes the flat object. Fields of the head take precedence over
// fields with the same name in a part.
func (e CellEvent) MarshalJSON() ([]byte, error) {
	head := eventHead{e.Revision, e.Type, e.Path, e.Reason}
	switch {
	case e.File != nil:
		type file struct { // nested one level deeper than the head, so the head's fields win
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

// flatEvent has every field that an event may have. Most watchers read one
// event per change, so one pass decodes it.
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

// UnmarshalJSON reads the flat object. For an unknown type it reads the common
// fields only.
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

// readParts decodes only the fields of the event's type. A field with the same
// name may have another meaning in a type unknown here.
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

// EventList is the JSON answer to a request for events. It covers everything up
// to Revision; the next call continues after it.
type EventList struct {
	Events   []CellEvent `json:"events"`
	Revision uint64      `json:"revision"`
}

// Bookmark reports that everything up to Revision was sent. Cell is the id of
// the cell to which the revision belongs; revisions of different cells are not
// comparable.
type Bookmark struct {
	Revision uint64 `json:"revision"`
	Cell     string `json:"cell"`
}

// Compacted reports that the events after the requested revision are no longer
// kept, or that the cell has not reached that revision. Oldest is the smallest
// revision that a caller may request; Revision is the present one.
type Compacted struct {
	Oldest   uint64 `json:"oldest"`
	Revision uint64 `json:"revision"`
}
