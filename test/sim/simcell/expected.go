package simcell

import (
	"fmt"
	"strings"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// expectedEvent is a change that has a revision, as watchers must receive it.
type expectedEvent struct {
	index   uint64 // of its entry
	kind    lockapi.EventType
	path    string
	line    string // the expected event, without contents
	content []byte // of a written file
}

// eventOf returns the expected event of a change; false if it has none.
func (y *revisions) eventOf(index uint64, c state.Change) (expectedEvent, bool) {
	h := expectedEvent{index: index}
	switch c := c.(type) {
	case state.OfficeOpened:
		h.kind, h.line = lockapi.EventMasterChanged, lineOfMaster(c.Epoch, c.Master)
	case state.Granted:
		h.kind, h.path = lockapi.EventLockAcquired, c.Hold.Path
		h.line = lineOfLock(c.Hold.Session, y.names[c.Hold.Session], c.Hold.Handle, c.Hold.Mode == state.Shared, c.Hold.Token, "")
	case state.Released:
		h.kind, h.path = lockapi.EventLockReleased, c.Hold.Path
		h.line = lineOfLock(c.Hold.Session, y.names[c.Hold.Session], c.Hold.Handle, c.Hold.Mode == state.Shared, c.Hold.Token, reasonOf(c.Reason))
	case state.Enqueued:
		h.kind, h.path = lockapi.EventLockContended, c.Wait.Path
		h.line = lineOfLock(c.Wait.Session, y.names[c.Wait.Session], c.Wait.Handle, c.Wait.Mode == state.Shared, 0, "")
		if c.Revision == 0 {
			return h, false
		}
	case state.FileChanged:
		h.kind, h.path, h.content = lockapi.EventFileChanged, c.File.Path, c.File.Content
		if c.File.Revision == c.File.Instance {
			h.kind = lockapi.EventFileCreated
		}
		h.line = lineOfFile(c.File.Instance, c.File.Generation, len(c.File.Content), c.File.Session, "")
	case state.FileDeleted:
		why := lockapi.ReasonSessionEnded
		if c.Reason == state.Deleted {
			why = lockapi.ReasonDeleted
		}
		h.kind, h.path = lockapi.EventFileDeleted, c.File.Path
		h.line = lineOfFile(c.File.Instance, c.File.Generation, len(c.File.Content), c.File.Session, why)
	default:
		return h, false
	}
	h.line = fmt.Sprintf("%s of %q: %s", h.kind, h.path, h.line)
	return h, true
}

// reasonOf returns the contract's name of the reason for the end of a hold.
func reasonOf(why state.Reason) string {
	return map[state.Reason]string{state.GivenBack: lockapi.ReasonReleased, state.Closed: lockapi.ReasonSessionClosed, state.Expired: lockapi.ReasonSessionExpired, state.Forced: lockapi.ReasonForced}[why]
}

// revisionOf returns the revision of a change, or 0 if it has none.
func revisionOf(c state.Change) uint64 {
	switch c := c.(type) {
	case state.OfficeOpened:
		return c.Revision
	case state.Granted:
		return c.Revision
	case state.Released:
		return c.Revision
	case state.Enqueued:
		return c.Revision
	case state.FileChanged:
		return c.File.Revision
	case state.FileDeleted:
		return c.Revision
	}
	return 0
}

func lineOfMaster(epoch uint64, master string) string {
	return fmt.Sprintf("epoch %d, master %s", epoch, master)
}

func lineOfLock(session, name, handle string, shared bool, token uint64, why string) string {
	return fmt.Sprintf("%s (%q) with handle %q, shared %v, token %d %s", session, name, handle, shared, token, why)
}

func lineOfFile(instance, generation uint64, size int, session, why string) string {
	return strings.TrimSpace(fmt.Sprintf("instance %d, generation %d, %d bytes, session %q %s", instance, generation, size, session, why))
}

// lineOf describes a received event.
func lineOf(e *lockapi.CellEvent) string {
	line := ""
	switch {
	case e.File != nil:
		line = lineOfFile(e.File.Instance, e.File.Generation, e.File.Size, e.File.Session, e.Reason)
	case e.Hold != nil:
		line = lineOfLock(e.Hold.Session, e.Hold.SessionName, e.Hold.Handle, e.Hold.Mode == lockapi.Shared, e.Hold.Token, e.Reason)
	case e.Master != nil:
		line = lineOfMaster(e.Master.Epoch, e.Master.Master)
	}
	return fmt.Sprintf("%s of %q: %s", e.Type, e.Path, line)
}
