package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// largeLag is from where on a replica's lag is worth a look.
const largeLag = 64

var replicaColumns = []column{
	{title: "REPLICA", width: 8}, {title: "ROLE", width: 8}, {title: "HEALTH", width: 9},
	{title: "BEHIND", width: 6, right: true}, {title: "PROMISE", width: 10, rank: 1}, {title: "CONTACT", width: 7, right: true, rank: 3},
	{title: "RELEASE", width: 14, rank: 4}, {title: "ADDRESS", flex: 17, rank: 2},
}

// cellLines shows the cell at a glance.
func (m *Model) cellLines(height int) []string {
	if m.lookedAt.IsZero() {
		if m.lost != nil {
			return nil // it is said above
		}
		return []string{m.paint.dim("Asking the cell...")}
	}
	c := m.look.Cell
	lines := m.glance(c)
	lines = append(lines, "")
	widths := layout(replicaColumns, m.width-2)
	lines = append(lines, "  "+m.heading(replicaColumns, widths))
	for _, r := range slices.SortedFunc(slices.Values(c.Replicas), func(a, b lockapi.Replica) int { return cmp.Compare(a.ID, b.ID) }) {
		lines = append(lines, "  "+row(m.replicaCells(r, newest(c.Replicas)), replicaColumns, widths))
	}
	for i, f := range m.look.Findings {
		if i == 0 {
			lines = append(lines, "")
		}
		for _, line := range m.broken(f, 2) {
			lines = append(lines, "  "+line)
		}
	}
	if len(m.circles) > 0 {
		lines = append(lines, "", m.paint.fail(fmt.Sprintf("! %s of sessions that wait for each other: key 6 shows them", format.Plural(len(m.circles), "circle"))))
	}
	room := height - len(lines) - 2
	if room < 2 {
		return lines
	}
	lines = append(lines, "", m.paint.head("Lately"))
	if len(m.events) == 0 {
		return append(lines, m.paint.dim(fmt.Sprintf("  nothing%s has changed since stout top was started", m.hedge(" that you may read"))))
	}
	widths = layout(eventColumns, m.width-2)
	for i := range m.events[:min(room, len(m.events))] {
		lines = append(lines, "  "+row(m.eventCells(&m.events[i]), eventColumns, widths))
	}
	return lines
}

// glance is what there is to say of the cell as a whole.
func (m *Model) glance(c lockapi.Cell) []string {
	pair := func(name, text string) string { return m.paint.dim(fmt.Sprintf("%-9s", name)) + text }
	master, lease := m.paint.fail("NONE: nothing can be changed now"), m.paint.fail("not held")
	if c.Master != nil {
		master = m.paint.good(format.Clean(c.Master.ID)) + ", epoch " + fmt.Sprint(c.Epoch) + "  " + format.Clean(c.Master.URL)
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
			// A replica that hangs keeps a look waiting: the lease goes on meanwhile.
			lease = fmt.Sprintf("held when last seen, %s ago; its term is %s", tenths(gone), format.Human(term))
		}
	}
	lines := []string{pair("master", master), pair("lease", lease), pair("health", m.verdict(c))}
	if !m.membersAt.IsZero() && inOffice(c) {
		lines = append(lines, pair("bears", m.borne()))
	}
	if c.Sessions != nil && c.Locks != nil && c.Waiters != nil {
		text := fmt.Sprintf("%s, %s, %s", format.Plural(*c.Sessions, "session"), format.Plural(*c.Locks, "lock"), format.Plural(*c.Waiters, "waiter"))
		if c.Files != nil && c.ContentBytes != nil && m.width >= 70 {
			text += fmt.Sprintf(", %s of %s", format.Plural(*c.Files, "file"), format.Bytes(*c.ContentBytes))
		}
		lines = append(lines, pair("serving", text))
	}
	access := "off: whoever reaches the cell may do everything"
	if m.width < 60 {
		access = "off"
	}
	if c.Access {
		access = "on"
	}
	return append(lines, pair("access", access))
}

// verdict says in a sentence how the replicas are.
func (m *Model) verdict(c lockapi.Cell) string {
	var ill []string
	for _, r := range c.Replicas {
		if !r.Healthy || slices.Contains(m.look.Deaf, r.ID) {
			ill = append(ill, format.Clean(r.ID))
		}
	}
	text, style := "all replicas are well", m.paint.good
	switch {
	case len(ill) > 0:
		text, style = strings.Join(ill, " and ")+" NOT WELL", m.paint.fail
	case !inOffice(c):
		text, style = "no master holds its lease", m.paint.fail
	case len(c.Replicas) == 1:
		text = "well"
	}
	return style(text)
}

// newest is the index of the last entry that a replica has applied.
func newest(replicas []lockapi.Replica) (index uint64) {
	for _, r := range replicas {
		index = max(index, r.AppliedIndex)
	}
	return index
}

func (m *Model) replicaCells(r lockapi.Replica, newest uint64) []cell {
	gone := m.now.Sub(m.lookedAt)
	health, behind, promise, contact := cell{text: "DOWN", style: m.paint.fail}, cell{text: "-"}, "-", "-"
	if r.Healthy {
		health, behind = cell{text: "ok", style: m.paint.good}, cell{text: fmt.Sprint(newest - r.AppliedIndex)}
		if newest-r.AppliedIndex > largeLag {
			behind.style = m.paint.warn
		}
		if r.Promise != nil {
			promise = fmt.Sprintf("%s %s", format.Clean(r.Promise.To), tenths(max(0, time.Duration(r.Promise.RemainingMS)*time.Millisecond-gone)))
		}
	}
	if slices.Contains(m.look.Deaf, r.ID) {
		health = cell{text: "no master", style: m.paint.fail}
	}
	role := cell{text: format.Clean(r.Role)}
	if r.Role == lockapi.RoleMaster {
		role.style = m.paint.good
	} else {
		contact = millis(r.LastContactMS)
	}
	release := ""
	for _, member := range m.members.Members {
		if member.ID == r.ID {
			release = member.Version
		}
	}
	return []cell{{text: format.Clean(r.ID)}, role, health, behind, {text: promise}, {text: contact}, {text: format.Clean(release)}, {text: address(r.URL)}}
}
