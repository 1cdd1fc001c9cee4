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

// largeLag is the lag from which on a replica is marked.
const largeLag = 64

var replicaColumns = []column[lockapi.Replica]{
	{title: "REPLICA", width: 8, cell: func(_ *Model, r lockapi.Replica) cell { return cell{text: format.Clean(r.ID)} }},
	{title: "ROLE", width: 8, cell: (*Model).roleCell},
	{title: "HEALTH", width: 9, cell: (*Model).healthCell},
	{title: "BEHIND", width: 6, right: true, cell: (*Model).behindCell},
	{title: "PROMISE", width: 10, rank: 1, cell: (*Model).promiseCell},
	{title: "CONTACT", width: 7, right: true, rank: 3, cell: func(_ *Model, r lockapi.Replica) cell {
		if r.Role == lockapi.RoleMaster {
			return cell{text: "-"}
		}
		return cell{text: millis(r.LastContactMS)}
	}},
	{title: "RELEASE", width: 14, rank: 4, cell: func(m *Model, r lockapi.Replica) cell {
		i := slices.IndexFunc(m.members.Members, func(member lockapi.Member) bool { return member.ID == r.ID })
		if i < 0 {
			return cell{}
		}
		return cell{text: format.Clean(m.members.Members[i].Version)}
	}},
	{title: "ADDRESS", flex: 17, rank: 2, cell: func(_ *Model, r lockapi.Replica) cell { return cell{text: address(r.URL)} }},
}

// cellLines shows an overview of the cell.
func (m *Model) cellLines(height int) []string {
	if m.lookedAt.IsZero() {
		if m.lost != nil {
			return nil // shown above
		}
		return []string{m.paint.dim("Asking the cell...")}
	}
	c := m.look.Cell
	lines := m.glance(c)
	lines = append(lines, "")
	widths := layout(replicaColumns, m.width-2)
	lines = append(lines, "  "+heading(m, replicaColumns, widths))
	for _, r := range slices.SortedFunc(slices.Values(c.Replicas), func(a, b lockapi.Replica) int { return cmp.Compare(a.ID, b.ID) }) {
		lines = append(lines, "  "+row(m, r, replicaColumns, widths))
	}
	for i, f := range m.look.Findings {
		if i == 0 {
			lines = append(lines, "")
		}
		for _, line := range m.broken(f, 2) {
			lines = append(lines, "  "+line)
		}
	}
	if len(m.cycles) > 0 {
		lines = append(lines, "", m.paint.fail(fmt.Sprintf("! %s of sessions that wait for each other: press 6", format.Plural(len(m.cycles), "circle"))))
	}
	room := height - len(lines) - 2
	if room < 2 {
		return lines
	}
	lines = append(lines, "", m.paint.head("Recent events"))
	if len(m.events) == 0 {
		return append(lines, m.paint.dim(fmt.Sprintf("  no change%s since stout top was started", m.hedge(" that you may read"))))
	}
	widths = layout(eventColumns, m.width-2)
	for i := range m.events[:min(room, len(m.events))] {
		lines = append(lines, "  "+row(m, &m.events[i], eventColumns, widths))
	}
	return lines
}

// glance returns the lines about the cell as a whole.
func (m *Model) glance(c lockapi.Cell) []string {
	pair := func(name, text string) string { return m.paint.dim(fmt.Sprintf("%-9s ", name)) + text }
	master, lease := m.paint.fail("NONE: no change is possible now"), m.paint.fail("not held")
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
			// A hanging replica delays a look, while the lease continues.
			lease = fmt.Sprintf("held when last seen, %s ago; its term is %s", tenths(gone), format.Human(term))
		}
	}
	lines := []string{pair("master", master), pair("lease", lease), pair("health", m.verdict(c))}
	if !m.membersAt.IsZero() && inOffice(c) {
		lines = append(lines, pair("tolerates", m.colouredTolerance()))
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

// verdict describes the health of the replicas.
func (m *Model) verdict(c lockapi.Cell) string {
	var ill []string
	for _, r := range c.Replicas {
		if !r.Healthy || slices.Contains(m.look.Unreached, r.ID) {
			ill = append(ill, format.Clean(r.ID))
		}
	}
	text, style := "all replicas are healthy", m.paint.good
	switch {
	case len(ill) > 0:
		text, style = strings.Join(ill, " and ")+" UNHEALTHY", m.paint.fail
	case !inOffice(c):
		text, style = "no master holds its lease", m.paint.fail
	case len(c.Replicas) == 1:
		text = "healthy"
	}
	return style(text)
}

// newest returns the index of the last applied entry of any replica.
func newest(replicas []lockapi.Replica) (index uint64) {
	for _, r := range replicas {
		index = max(index, r.AppliedIndex)
	}
	return index
}

func (m *Model) roleCell(r lockapi.Replica) cell {
	c := cell{text: format.Clean(r.Role)}
	if r.Role == lockapi.RoleMaster {
		c.style = m.paint.good
	}
	return c
}

func (m *Model) healthCell(r lockapi.Replica) cell {
	switch {
	case slices.Contains(m.look.Unreached, r.ID):
		return cell{text: "no master", style: m.paint.fail}
	case r.Healthy:
		return cell{text: "ok", style: m.paint.good}
	}
	return cell{text: "DOWN", style: m.paint.fail}
}

func (m *Model) behindCell(r lockapi.Replica) cell {
	if !r.Healthy {
		return cell{text: "-"}
	}
	behind := newest(m.look.Cell.Replicas) - r.AppliedIndex
	c := cell{text: fmt.Sprint(behind)}
	if behind > largeLag {
		c.style = m.paint.warn
	}
	return c
}

func (m *Model) promiseCell(r lockapi.Replica) cell {
	if !r.Healthy || r.Promise == nil {
		return cell{text: "-"}
	}
	left := time.Duration(r.Promise.RemainingMS)*time.Millisecond - m.now.Sub(m.lookedAt)
	return cell{text: format.Clean(r.Promise.To) + " " + tenths(left)}
}
