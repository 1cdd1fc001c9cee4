package events

import (
	"time"

	"github.com/stoutlock/stout/replica/state"
)

// Event is one change with a revision. It is immutable.
type Event struct {
	Type     Type
	Revision uint64
	Path     string // of the node; empty for MasterChanged

	reason state.Reason
	file   *state.File // without its content
	hold   *state.Hold
	wait   *state.Wait
	owner  *Owner // the session with the hold or the wait
	office *state.OfficeOpened
	ending state.Ending
	waited time.Duration // by the session of a grant
}

// Owner describes the session of a hold or a wait, at the time of the event.
type Owner struct {
	Name, Principal string
	TTL             time.Duration
}

// File returns the stat of the file, without content: after the write, or
// before the deletion for FileDeleted. It is nil for other events.
func (e Event) File() *state.File { return e.file }

// Content returns the content written by the event, if the file still has it in
// present. That must be a state at or after the event's revision. The ring
// keeps no contents, so it does not keep overwritten ones in memory; the ring's
// reader supplies the state.
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

// Hold returns the grant of LockAcquired and LockReleased; nil for others.
func (e Event) Hold() *state.Hold { return e.hold }

// Owner returns the session that has, or had, the Hold or the Wait. It remains
// after the session has ended, and is nil for other events.
func (e Event) Owner() *Owner { return e.owner }

// Ending returns details of the end for LockReleased and FileDeleted; zero for
// others.
func (e Event) Ending() state.Ending { return e.ending }

// Waited returns how long the session of LockAcquired had waited. It returns
// false if the lock was granted at once, and for other events.
func (e Event) Waited() (d time.Duration, ok bool) {
	return e.waited, e.Type == LockAcquired && e.hold.WaitSeq != 0
}

// At returns the time of the event in Unix nanoseconds, by the clock of the
// master at that time. It never goes back within a cell.
func (e Event) At() int64 {
	switch e.Type {
	case FileCreated, FileChanged:
		return e.file.ModifiedAt
	case LockAcquired:
		return e.hold.GrantedAt
	case LockContended:
		return e.wait.Since
	case MasterChanged:
		return e.office.At
	}
	return e.ending.At
}

// Wait returns the queue position that made a lock contended; nil for others.
func (e Event) Wait() *state.Wait { return e.wait }

// Master returns the epoch and the replica of MasterChanged; zero for others.
func (e Event) Master() (epoch uint64, master string) {
	if e.office == nil {
		return 0, ""
	}
	return e.office.Epoch, e.office.Master
}

// Reason returns the contract's word for why a grant or a file ended; empty if
// the event has no reason.
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
		case state.Forced:
			return "forced"
		}
	}
	return ""
}

// of returns the event of a change, without its owner, or false if the change
// makes no event.
func of(c state.Change) (Event, bool) {
	switch c := c.(type) {
	case state.OfficeOpened:
		return Event{Type: MasterChanged, Revision: c.Revision, office: &c}, true
	case state.Granted:
		e := Event{Type: LockAcquired, Revision: c.Revision, Path: c.Hold.Path, hold: c.Hold}
		if c.Wait != nil {
			e.waited = time.Duration(c.Hold.GrantedAt - c.Wait.Since)
		}
		return e, true
	case state.Released:
		return Event{Type: LockReleased, Revision: c.Revision, Path: c.Hold.Path, hold: c.Hold, reason: c.Reason, ending: c.Ending}, true
	case state.Enqueued:
		return Event{Type: LockContended, Revision: c.Revision, Path: c.Wait.Path, wait: c.Wait}, c.Revision != 0
	case state.FileChanged:
		kind := FileChanged
		if c.Stat.Generation == 1 {
			kind = FileCreated
		}
		return Event{Type: kind, Revision: c.Stat.Revision, Path: c.Stat.Path, file: c.Stat}, true
	case state.FileDeleted:
		return Event{Type: FileDeleted, Revision: c.Revision, Path: c.File.Path, file: stat(c.File), reason: c.Reason, ending: c.Ending}, true
	}
	return Event{}, false
}

// stat returns a copy of the file that has no content.
func stat(f *state.File) *state.File {
	s := *f
	s.Content = nil
	return &s
}

// bytes estimates the memory of an event: its slot in the ring, the values it
// refers to, and their strings.
func (e *Event) bytes() int64 {
	n := 144 + len(e.Path) + len(e.ending.By)
	if e.owner != nil {
		n += 40 + len(e.owner.Name) + len(e.owner.Principal)
	}
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
