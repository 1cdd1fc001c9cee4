package format

import (
	"fmt"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// Session returns a session's name, or the start of its id without one.
func Session(name, id string) string {
	if name != "" {
		return Clean(name)
	}
	return "session " + Clean(id[:min(len(id), 8)])
}

var eventWords = map[lockapi.EventType]string{
	lockapi.EventLockAcquired: "acquired", lockapi.EventLockReleased: "released", lockapi.EventLockContended: "waits",
	lockapi.EventFileCreated: "created", lockapi.EventFileChanged: "changed", lockapi.EventFileDeleted: "deleted",
	lockapi.EventMasterChanged: "master",
}

// EventWord names a type of event.
func EventWord(t lockapi.EventType) string {
	if word := eventWords[t]; word != "" {
		return word
	}
	return Clean(string(t))
}

var endings = map[string]string{
	lockapi.ReasonReleased: "released", lockapi.ReasonSessionClosed: "its session was closed", lockapi.ReasonSessionExpired: "its session expired",
	lockapi.ReasonForced: "released by force", lockapi.ReasonDeleted: "deleted", lockapi.ReasonSessionEnded: "its session ended",
	lockapi.ReasonDenied: "its session may no longer lock there",
}

func ending(reason string) string {
	if word := endings[reason]; word != "" {
		return word
	}
	return Clean(strings.ReplaceAll(reason, "_", " "))
}

// Event returns what an event reports beside its type and path.
func Event(e *lockapi.CellEvent) string {
	switch {
	case e.Master != nil:
		return fmt.Sprintf("%s is master, epoch %d", Clean(e.Master.Master), e.Master.Epoch)
	case e.Hold != nil && e.Type == lockapi.EventLockReleased:
		return Session(e.Hold.SessionName, e.Hold.Session) + ", " + ending(e.Reason)
	case e.Hold != nil && e.Hold.Token != 0:
		return fmt.Sprintf("%s, token %d", Session(e.Hold.SessionName, e.Hold.Session), e.Hold.Token)
	case e.Hold != nil:
		return Session(e.Hold.SessionName, e.Hold.Session)
	case e.Type == lockapi.EventFileDeleted:
		return ending(e.Reason)
	case e.File != nil:
		return fmt.Sprintf("%s, generation %d", Bytes(int64(e.File.Size)), e.File.Generation)
	}
	return ""
}

// Deadlock describes a cycle of waits: a heading, and a line for
// each session.
func Deadlock(d lockapi.Deadlock) (head string, lines []string) {
	head = "A session waits for itself:"
	if n := len(d.Links) + d.MoreLinks; n > 1 {
		head = fmt.Sprintf("%d sessions wait for each other:", n)
	}
	for i, l := range d.Links {
		next := d.Links[(i+1)%len(d.Links)]
		why := fmt.Sprintf("which %s holds with token %d", Clean(next.SessionName), l.Token)
		if d.MoreLinks > 0 && i == len(d.Links)-1 {
			why = "which a session that is not shown holds"
		}
		lines = append(lines, fmt.Sprintf("%s (session %s) waits %s for %s, %s", Clean(l.SessionName), Clean(l.Session), MS(l.WaitingMS), Clean(l.Path), why))
	}
	if d.MoreLinks > 0 {
		lines = append(lines, fmt.Sprintf("and %d more; the last one waits for the first session", d.MoreLinks))
	}
	return head, lines
}
