package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

func (m *Model) cellLines(height int) []string {
	if m.lookedAt.IsZero() {
		if m.lost != nil {
			return nil // shown above
		}
		return []string{m.paint.Faint("Asking the cell...")}
	}
	c := m.look.Cell
	lines := m.glance(c)
	lines = append(lines, "")
	lines = append(lines, m.printed(m.look.Replicas)...)
	for i, f := range m.look.Findings {
		if i == 0 {
			lines = append(lines, "")
		}
		lines = append(lines, m.hanging("  ", "", 0, f)...)
	}
	if len(m.members.Cycles) > 0 {
		lines = append(lines, "", fmt.Sprintf("%s of waits: press 6", format.Plural(len(m.members.Cycles), "cycle")))
	}
	room := height - len(lines) - 2
	if room < 2 {
		return lines
	}
	lines = append(lines, "", m.paint.Bold("Recent events"))
	events := m.events.rows(m)
	if len(events) == 0 {
		return append(lines, m.paint.Faint(fmt.Sprintf("  no change%s that the replica remembers", m.hedge(" that you may read"))))
	}
	widths := layout(eventColumns, m.width-2)
	for _, e := range events[:min(room, len(events))] {
		lines = append(lines, "  "+row(m, e, eventColumns, widths))
	}
	return lines
}

func (m *Model) glance(c lockapi.Cell) []string {
	pair := func(name, text string) string { return m.paint.Faint(fmt.Sprintf("%-9s ", name)) + text }
	master, lease := m.paint.Fail("NONE: no change is possible now"), m.paint.Fail("not held")
	if c.Master != nil {
		master = m.paint.OK(format.Clean(c.Master.ID)) + ", epoch " + fmt.Sprint(c.Epoch) + "  " + format.Clean(c.Master.URL)
	}
	gone := m.now.Sub(m.lookedAt)
	if l := c.Lease; l.Held {
		left := max(0, time.Duration(l.RemainingMS)*time.Millisecond-gone)
		term := time.Duration(l.TermMS) * time.Millisecond
		text := fmt.Sprintf("%s of %s left", tenths(left), format.Human(term))
		if m.width >= 70 {
			text += fmt.Sprintf(", renewed %s ago", tenths(time.Duration(l.RenewedAgoMS)*time.Millisecond+gone))
		}
		lease = bar(left, term, max(8, min(24, m.width/4))) + " " + text
		if left == 0 {
			// A hanging replica delays a look, while the lease continues.
			lease = fmt.Sprintf("held when last seen, %s ago; its term is %s", tenths(gone), format.Human(term))
		}
	}
	lines := []string{pair("master", master), pair("lease", lease), pair("health", m.verdict(c))}
	if !m.membersAt.IsZero() && ask.InOffice(c) {
		lines = append(lines, pair("tolerates", m.members.Tolerates))
	}
	if c.Sessions != nil && c.Locks != nil && c.Waiters != nil {
		text := fmt.Sprintf("%s, %s, %s", format.Plural(*c.Sessions, "session"), format.Plural(*c.Locks, "lock"), format.Plural(*c.Waiters, "waiter"))
		if c.Files != nil && c.ContentBytes != nil && m.width >= 70 {
			text += fmt.Sprintf(", %s of %s", format.Plural(*c.Files, "file"), format.Bytes(*c.ContentBytes))
		}
		lines = append(lines, pair("serving", text))
	}
	access := "off: every caller may do everything"
	if m.width < 60 {
		access = "off"
	}
	if c.Access {
		access = "on"
	}
	return append(lines, pair("access", access))
}

func (m *Model) verdict(c lockapi.Cell) string {
	var ill []string
	for _, r := range c.Replicas {
		if !r.Healthy || slices.Contains(m.look.Unreached, r.ID) {
			ill = append(ill, format.Clean(r.ID))
		}
	}
	text, style := "all replicas are healthy", m.paint.OK
	switch {
	case len(ill) > 0:
		text, style = strings.Join(ill, " and ")+" UNHEALTHY", m.paint.Fail
	case !ask.InOffice(c):
		text, style = "no master holds its lease", m.paint.Fail
	case len(c.Replicas) == 1:
		text = "healthy"
	}
	return style(text)
}

func (m *Model) membersLines(int) []string {
	switch {
	case m.noMembers != nil && m.membersAt.IsZero():
		return m.troubleLines(m.noMembers)
	case m.membersAt.IsZero():
		return []string{m.paint.Faint("Asking for the members...")}
	}
	lines := append(m.printed(m.members.Text), "")
	if len(m.members.Cycles) == 0 {
		return append(lines, fmt.Sprintf("No sessions wait for each other%s.", m.hedge(" over locks that you may read")))
	}
	for _, d := range m.members.Cycles {
		head, links := format.Deadlock(d)
		lines = append(lines, head)
		for _, l := range links {
			lines = append(lines, m.hanging("  ", "", 0, l)...)
		}
	}
	return lines
}

// printed returns the lines that another command printed.
func (m *Model) printed(text string) []string {
	return strings.Split(strings.TrimRight(text, "\n"), "\n")
}
