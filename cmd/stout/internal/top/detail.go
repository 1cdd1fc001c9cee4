package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/lockapi"
)

// detailLines shows the open subject.
func (m *Model) detailLines() []string {
	names := map[kind]string{lockKind: "Lock", sessionKind: "Session", fileKind: "File"}
	lines := m.hard(m.paint.head(names[m.detail.Kind]+" "+format.Clean(m.detail.Name)), m.width)
	r := &m.reading
	if r.of != m.detail {
		return append(lines, "", m.paint.dim("Reading..."))
	}
	if age := m.clock.Sub(r.at); age > oldAfter && m.detail.Kind != fileKind {
		lines = append(lines, m.paint.warn(fmt.Sprintf("STALE: this is %s old", format.Human(age))))
	} else if r.Stale {
		lines = append(lines, m.paint.warn("Possibly out of date: there was no master."))
	}
	lines = append(lines, "")
	if r.Err != nil {
		return append(lines, m.troubleLines(r.Err)...)
	}
	for line := range strings.Lines(r.Text) {
		lines = append(lines, strings.Split(ansi.Wrap(strings.TrimRight(line, "\n"), max(8, m.width), ""), "\n")...)
	}
	if r.History != nil {
		lines = append(lines, m.timeline(r.History)...)
	}
	if r.File != nil {
		lines = append(lines, m.fileLines()...)
	}
	return lines
}

// hard breaks a line at the screen's width.
func (m *Model) hard(line string, width int) []string {
	return strings.Split(ansi.Hardwrap(line, max(8, width), true), "\n")
}

// timeline shows the history of a lock, newest first.
func (m *Model) timeline(h *lockapi.History) []string {
	lines := []string{"", m.paint.head("History, newest first")}
	if len(h.Events) == 0 {
		lines = append(lines, "  the replica has no history of it")
	}
	for i := range h.Events {
		p := &h.Events[i]
		mark := map[lockapi.EventType]string{lockapi.EventLockAcquired: "+", lockapi.EventLockReleased: "-", lockapi.EventMasterChanged: "="}[p.Type]
		head := fmt.Sprintf("  %s %s %-8s ", m.timeOfDay(p.At), cmp.Or(mark, "|"), happening(p.Type))
		text := past(p, h.Events)
		room := max(12, min(m.width, 100)-ansi.StringWidth(head))
		if m.width < 60 { // below the time, where there is no room beside it
			lines, head, room = append(lines, head), "      ", max(12, m.width-6)
		}
		for i, line := range strings.Split(ansi.Wrap(text, room, ""), "\n") {
			if i > 0 {
				head = strings.Repeat(" ", ansi.StringWidth(head))
			}
			lines = append(lines, head+line)
		}
	}
	reach := ""
	if h.More {
		reach = "There are older events. "
	}
	if h.Since != nil {
		reach += "The replica's history reaches back to " + m.timeOfDay(*h.Since) + "."
	}
	if reach != "" {
		lines = append(lines, "")
		for _, line := range m.wrapped(reach) {
			lines = append(lines, m.paint.dim(line))
		}
	}
	return lines
}

// past describes one event of a history.
func past(p *lockapi.PastEvent, events []lockapi.PastEvent) string {
	who := called(p.SessionName, p.Session)
	switch p.Type {
	case lockapi.EventMasterChanged:
		return fmt.Sprintf("%s became master, in epoch %d", format.Clean(p.Master), p.Epoch)
	case lockapi.EventLockAcquired:
		text := fmt.Sprintf("%s, %s, token %d", who, format.Clean(string(p.Mode)), p.Token)
		if p.WaitedMS != nil {
			text += ", waited " + millis(*p.WaitedMS)
		}
		return text
	case lockapi.EventLockReleased:
		text := who + ", " + ending(p.Reason)
		if p.Reason == lockapi.ReasonForced && p.By != "" {
			text += " by " + format.Clean(p.By)
		}
		if p.SilentMS != nil {
			text += fmt.Sprintf(": last keepalive %s%s earlier, ttl %s", atLeast(p, events), millis(*p.SilentMS), millis(p.TTLMS))
		}
		if p.HeldMS != nil {
			text += ", held it for " + millis(*p.HeldMS)
		}
		return text
	case lockapi.EventFileDeleted:
		return ending(p.Reason)
	case lockapi.EventFileCreated, lockapi.EventFileChanged:
		text := fmt.Sprintf("%s, generation %d", format.Bytes(int64(p.Size)), p.Generation)
		if p.By != "" {
			text += ", by " + format.Clean(p.By)
		}
		return text
	}
	return who
}

// atLeast qualifies a session's silence if its master took office at its
// beginning, because that master knows no earlier keepalive.
func atLeast(end *lockapi.PastEvent, events []lockapi.PastEvent) string {
	lastSeen := end.At.Add(-time.Duration(*end.SilentMS) * time.Millisecond)
	for i := range events {
		p := &events[i]
		if p.Type == lockapi.EventMasterChanged && p.At.Before(end.At) && lastSeen.Sub(p.At).Abs() < time.Second {
			return "at least "
		}
	}
	return ""
}

// fileLines shows a file's metadata and its content, with control characters
// escaped.
func (m *Model) fileLines() []string {
	f := m.reading.File
	pairs := [][2]string{
		{"size", format.Bytes(int64(f.Size))}, {"generation", fmt.Sprintf("%d, revision %d, created as %d", f.Generation, f.Revision, f.Instance)},
		{"written", fmt.Sprintf("%s, %s ago, by %s", m.timeOfDay(f.ModifiedAt), m.ago(f.ModifiedAt), format.Clean(f.Principal))},
		{"created", m.timeOfDay(f.CreatedAt)}, {"sha256", format.Clean(f.SHA256)},
	}
	if f.Session != "" {
		pairs = append(pairs, [2]string{"ends with", "session " + format.Clean(f.Session)})
	}
	var lines []string
	for _, p := range pairs {
		lines = append(lines, m.hard(m.paint.dim(fmt.Sprintf("%-11s", p[0]))+p[1], m.width)...)
	}
	lines = append(lines, "", m.paint.head("Content"))
	for line := range strings.Lines(safetext.Page(string(f.Content))) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")
		for _, part := range m.hard(line, m.width-2) {
			lines = append(lines, "  "+part)
		}
	}
	return lines
}
