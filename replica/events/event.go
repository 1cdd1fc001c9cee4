package events

import (
	"slices"

	"github.com/stoutlock/stout/replica/state"
)

// Event is one change that has a revision. It is immutable.
type Event struct {
	Type     Type
	Revision uint64
	Path     string // of the node; empty for MasterChanged

	reason state.Reason
	file   *state.File // without its content
	hold   *state.Hold
	wait   *state.Wait
	name   string // of the hold's or the wait's session
	office *state.OfficeOpened
}

// File is the stat of the file, which has no content here: as it was written, or,
// for FileDeleted, as it was before. It is nil for what is not of a file.
func (e Event) File() *state.File { return e.file }

// Content is the content that the event's file was written with, as long as it is
// what the file has in present, a state at or after the event's revision. The ring
// keeps no contents, so that one that was overwritten is not kept alive by it:
// whoever reads the ring gives the state.
func (e Event) Content(present *state.State) ([]byte, bool) {
	if e.Type != FileCreated && e.Type != FileChanged {
		return nil, false
	}
	f, ok := present.File(e.Path)
	if !ok || f.Revision != e.Revision {
		return nil, false
	}
	return f.Content, true
}

// Hold is the grant of LockAcquired and LockReleased, nil for others.
func (e Event) Hold() *state.Hold { return e.hold }

// SessionName is the name of the session that has, or had, the Hold or the Wait. It
// stays when the session has ended.
func (e Event) SessionName() string { return e.name }

// Wait is the place in the queue that made a lock contended; nil for others.
func (e Event) Wait() *state.Wait { return e.wait }

// Master is the epoch and the replica of MasterChanged; zero for others.
func (e Event) Master() (epoch uint64, master string) {
	if e.office == nil {
		return 0, ""
	}
	return e.office.Epoch, e.office.Master
}

// Reason says why a grant or a file ended, as the contract has it; empty for what
// has no reason.
func (e Event) Reason() string {
	switch e.Type {
	case FileDeleted:
		switch e.reason {
		case state.Deleted:
			return "deleted"
		case state.Closed, state.Expired:
			return "session_ended"
		}
	case LockReleased:
		switch e.reason {
		case state.GivenBack:
			return "released"
		case state.Closed:
			return "session_closed"
		case state.Expired:
			return "session_expired"
		}
	}
	return ""
}

// of is the event of a change; false where it makes none. It leaves the name of the
// session empty.
func of(c state.Change) (Event, bool) {
	switch c := c.(type) {
	case state.OfficeOpened:
		return Event{Type: MasterChanged, Revision: c.Revision, office: &c}, true
	case state.Granted:
		return Event{Type: LockAcquired, Revision: c.Revision, Path: c.Hold.Path, hold: c.Hold}, true
	case state.Released:
		return Event{Type: LockReleased, Revision: c.Revision, Path: c.Hold.Path, hold: c.Hold, reason: c.Reason}, true
	case state.Enqueued:
		return Event{Type: LockContended, Revision: c.Revision, Path: c.Wait.Path, wait: c.Wait}, c.Revision != 0
	case state.FileChanged:
		kind := FileChanged
		if c.File.Generation == 1 {
			kind = FileCreated
		}
		return Event{Type: kind, Revision: c.File.Revision, Path: c.File.Path, file: stat(c.File)}, true
	case state.FileDeleted:
		return Event{Type: FileDeleted, Revision: c.Revision, Path: c.File.Path, file: stat(c.File), reason: c.Reason}, true
	}
	return Event{}, false
}

// stat is a file without its content, and without a hold on the bytes of the log
// entry that it came with.
func stat(f *state.File) *state.File {
	s := *f
	s.Content, s.Sum = nil, slices.Clone(f.Sum)
	return &s
}

// bytes is about what an event takes in memory: its place in the ring, what it
// refers to, and their strings.
func (e *Event) bytes() int64 {
	n := 112 + len(e.Path) + len(e.name)
	switch {
	case e.file != nil:
		n += 176 + len(e.file.Sum) + len(e.file.Session)
	case e.hold != nil:
		n += 128 + len(e.hold.Session) + len(e.hold.Handle)
	case e.wait != nil:
		n += 128 + len(e.wait.Session) + len(e.wait.Handle)
	case e.office != nil:
		n += 32 + len(e.office.Master)
	}
	return int64(n)
}
