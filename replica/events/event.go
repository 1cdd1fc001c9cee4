package events

import (
	"slices"
	"time"

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
	owner  *Owner // of the hold or the wait
	office *state.OfficeOpened
	ending state.Ending
	waited time.Duration // of a grant
}

// Owner is what is kept of the session of a hold or a wait, as it was when the event
// came about.
type Owner struct {
	Name, Principal string
	TTL             time.Duration
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

// Owner is the session that has, or had, the Hold or the Wait. It stays when the
// session has ended, and is nil for others.
func (e Event) Owner() *Owner { return e.owner }

// Ending is what is known of how LockReleased and FileDeleted came about; zero for
// others.
func (e Event) Ending() state.Ending { return e.ending }

// Waited is for how long the session of LockAcquired had waited; false where it got
// the lock at once, and for others.
func (e Event) Waited() (d time.Duration, ok bool) {
	return e.waited, e.Type == LockAcquired && e.hold.WaitSeq != 0
}

// At is when it came about, Unix nanoseconds, by the clock of the master then. It
// never goes back within a cell.
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
		case state.Forced:
			return "forced"
		}
	}
	return ""
}

// of is the event of a change; false where it makes none. It leaves the owner out.
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
		if c.File.Generation == 1 {
			kind = FileCreated
		}
		return Event{Type: kind, Revision: c.File.Revision, Path: c.File.Path, file: stat(c.File)}, true
	case state.FileDeleted:
		return Event{Type: FileDeleted, Revision: c.Revision, Path: c.File.Path, file: stat(c.File), reason: c.Reason, ending: c.Ending}, true
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
