package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

var memberColumns = []column[*lockapi.Member]{
	{title: "MEMBER", width: 8, cell: func(_ *Model, r *lockapi.Member) cell { return cell{text: format.Clean(r.ID)} }},
	{title: "PART", width: 8, cell: func(_ *Model, r *lockapi.Member) cell { return cell{text: memberPart(r)} }},
	{title: "HEALTH", width: 9, cell: (*Model).memberHealth},
	{title: "BEHIND", width: 6, right: true, cell: func(_ *Model, r *lockapi.Member) cell {
		if !r.Healthy {
			return cell{text: "-"}
		}
		return cell{text: fmt.Sprint(r.Behind)}
	}},
	{title: "RELEASE", width: 12, rank: 1, cell: func(_ *Model, r *lockapi.Member) cell { return cell{text: format.Clean(r.Version)} }},
	{title: "SINCE", width: 10, right: true, rank: 2, cell: func(m *Model, r *lockapi.Member) cell { return cell{text: m.ago(r.Since)} }},
	{title: "ADDRESS", flex: 22, cell: func(_ *Model, r *lockapi.Member) cell { return cell{text: address(r.URL)} }},
	{title: "RAFT", width: 22, rank: 3, cell: func(_ *Model, r *lockapi.Member) cell { return cell{text: format.Clean(r.RaftAddr)} }},
	{title: "DIRECTORY", width: 16, rank: 4, cell: func(_ *Model, r *lockapi.Member) cell { return cell{text: format.Clean(r.Directory)} }},
}

// membersLines shows who makes up the cell, and who waits for each other in it.
func (m *Model) membersLines() []string {
	if m.noMembers != nil && m.membersAt.IsZero() {
		return m.troubleLines(m.noMembers)
	}
	if m.membersAt.IsZero() {
		return []string{m.paint.dim("Asking for the members...")}
	}
	bears := fmt.Sprintf("It bears %s.", m.bears())
	if !m.led() {
		bears = "It has no master: what it bears is exceeded, or one is about to be elected."
	}
	lines := m.wrapped(fmt.Sprintf("Cell %s. %s", format.Clean(m.members.CellID), bears))
	lines = append(lines, "")
	widths := layout(memberColumns, m.width-2)
	lines = append(lines, "  "+heading(m, memberColumns, widths))
	for i := range m.members.Members {
		lines = append(lines, "  "+row(m, &m.members.Members[i], memberColumns, widths))
	}
	lines = append(lines, "")
	if len(m.circles) == 0 {
		return append(lines, fmt.Sprintf("No sessions wait for each other%s.", m.hedge(" over locks that you may read")))
	}
	return append(lines, m.circleLines()...)
}

// memberPart is what a member does in the cell.
func memberPart(r *lockapi.Member) string {
	switch {
	case r.Role == lockapi.RoleMaster:
		return "master"
	case r.Suffrage != lockapi.SuffrageVoter:
		return "no vote"
	}
	return "votes"
}

func (m *Model) memberHealth(r *lockapi.Member) cell {
	switch {
	case r.Healthy:
		return cell{text: "ok", style: m.paint.good}
	case r.Version != "": // it answers with its release, and has no master
		return cell{text: "no master", style: m.paint.fail}
	}
	return cell{text: "DOWN", style: m.paint.fail}
}

// led says whether the members that were told have a master.
func (m *Model) led() bool {
	return slices.ContainsFunc(m.members.Members, func(r lockapi.Member) bool { return r.Role == lockapi.RoleMaster })
}

// circleLines tells of sessions that wait for each other.
func (m *Model) circleLines() []string {
	var lines []string
	for _, d := range m.circles {
		head := fmt.Sprintf("! %d sessions wait for each other:", len(d.Links))
		if len(d.Links) == 1 {
			head = "! A session waits for itself:"
		}
		lines = append(lines, m.paint.fail(head))
		for i, l := range d.Links {
			next := d.Links[(i+1)%len(d.Links)]
			why := "where " + called(next.SessionName, next.Session) + " stands ahead"
			if l.Token != 0 {
				why = fmt.Sprintf("which %s holds", called(next.SessionName, next.Session))
			}
			text := fmt.Sprintf("%s waits %s for %s, %s", called(l.SessionName, l.Session), millis(l.WaitingMS), format.Clean(l.Path), why)
			for i, line := range m.broken(text, 2) {
				lines = append(lines, strings.Repeat(" ", 2+2*min(i, 1))+line)
			}
		}
	}
	return lines
}

// borne is bears, with its colour.
func (m *Model) borne() string {
	if m.members.Tolerates == 0 && len(m.members.Members) > 1 {
		return m.paint.warn(m.bears())
	}
	return m.bears()
}

// bears is how many more failures the cell bears.
func (m *Model) bears() string {
	switch n := m.members.Tolerates; n {
	case 0:
		return "no further failure"
	case 1:
		return "one more failure"
	default:
		return fmt.Sprintf("%d more failures", n)
	}
}
