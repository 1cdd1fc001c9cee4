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

// membersLines shows the members and the deadlocks.
func (m *Model) membersLines() []string {
	if m.noMembers != nil && m.membersAt.IsZero() {
		return m.troubleLines(m.noMembers)
	}
	if m.membersAt.IsZero() {
		return []string{m.paint.dim("Asking for the members...")}
	}
	tolerates := fmt.Sprintf("It tolerates %s.", m.tolerance())
	if !m.led() {
		tolerates = "It has no master: too many members are down, or an election is under way."
	}
	lines := m.wrapped(fmt.Sprintf("Cell %s. %s", format.Clean(m.members.CellID), tolerates))
	lines = append(lines, "")
	widths := layout(memberColumns, m.width-2)
	lines = append(lines, "  "+heading(m, memberColumns, widths))
	for i := range m.members.Members {
		lines = append(lines, "  "+row(m, &m.members.Members[i], memberColumns, widths))
	}
	lines = append(lines, "")
	if len(m.cycles) == 0 {
		return append(lines, fmt.Sprintf("No sessions wait for each other%s.", m.hedge(" over locks that you may read")))
	}
	return append(lines, m.cycleLines()...)
}

// memberPart returns a member's part in the cell.
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
	case r.Version != "": // it reported its release but has no master
		return cell{text: "no master", style: m.paint.fail}
	}
	return cell{text: "DOWN", style: m.paint.fail}
}

// led reports whether the listed members have a master.
func (m *Model) led() bool {
	return slices.ContainsFunc(m.members.Members, func(r lockapi.Member) bool { return r.Role == lockapi.RoleMaster })
}

// cycleLines describes deadlocks.
func (m *Model) cycleLines() []string {
	var lines []string
	for _, d := range m.cycles {
		head := fmt.Sprintf("! %d sessions wait for each other:", len(d.Links))
		if len(d.Links) == 1 {
			head = "! A session waits for itself:"
		}
		lines = append(lines, m.paint.fail(head))
		for i, l := range d.Links {
			next := d.Links[(i+1)%len(d.Links)]
			why := "behind " + called(next.SessionName, next.Session) + " in the queue"
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

// colouredTolerance is tolerance with its colour.
func (m *Model) colouredTolerance() string {
	if m.members.Tolerates == 0 && len(m.members.Members) > 1 {
		return m.paint.warn(m.tolerance())
	}
	return m.tolerance()
}

// tolerance describes how many more failures the cell tolerates.
func (m *Model) tolerance() string {
	switch n := m.members.Tolerates; n {
	case 0:
		return "no more failures"
	case 1:
		return "one more failure"
	default:
		return fmt.Sprintf("%d more failures", n)
	}
}
