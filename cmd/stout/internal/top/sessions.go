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

// sessionRow is the state of a session.
type sessionRow struct {
	lockapi.SessionState
	at time.Time
}

// sessionsRead adds a part of the list of sessions. Sessions cause no events,
// so the list is read repeatedly, one part at a time.
func (m *Model) sessionsRead(p SessionsRead) {
	m.sessions.begin(p.Part)
	for _, s := range p.Sessions {
		m.sessions.rows[s.ID] = &sessionRow{SessionState: s, at: p.At}
	}
	if p.Done && p.Err == nil {
		for id, row := range m.sessions.rows {
			if row.at.Before(p.Began) {
				delete(m.sessions.rows, id)
			}
		}
	}
}

// left returns the time left of a session's lease, counted from its reading;
// below zero if unknown.
func (m *Model) left(r *sessionRow) time.Duration {
	if r.LeaseRemainingMS == nil {
		return -1
	}
	return max(0, time.Duration(*r.LeaseRemainingMS)*time.Millisecond-m.now.Sub(r.at))
}

var sessionSorts = []struct {
	name string
	less func(m *Model, a, b *sessionRow) int
}{
	{"name", func(_ *Model, a, b *sessionRow) int { return strings.Compare(a.Name, b.Name) }},
	{"lease left", func(m *Model, a, b *sessionRow) int { return cmp.Compare(m.left(a), m.left(b)) }},
	{"holds", func(_ *Model, a, b *sessionRow) int { return cmp.Compare(len(b.Holds), len(a.Holds)) }},
	{"waits", func(_ *Model, a, b *sessionRow) int { return cmp.Compare(len(b.Waits), len(a.Waits)) }},
	{"oldest", func(_ *Model, a, b *sessionRow) int { return a.CreatedAt.Compare(b.CreatedAt) }},
}

func (m *Model) sessionRows() []*sessionRow {
	if m.sessions.sorted != nil {
		return m.sessions.sorted
	}
	l := m.lists[sessionsPage]
	out := make([]*sessionRow, 0, len(m.sessions.rows))
	for _, row := range m.sessions.rows {
		more := []string{row.ID, row.Principal}
		for k, v := range row.Meta {
			more = append(more, k, v)
		}
		for _, h := range row.Holds[:min(len(row.Holds), 20)] {
			more = append(more, h.Path)
		}
		if l.search == "" || fits(l.search, row, more) {
			out = append(out, row)
		}
	}
	order := sessionSorts[l.sort].less
	slices.SortFunc(out, func(a, b *sessionRow) int {
		by := order(m, a, b)
		if l.reverse {
			by = -by
		}
		return cmp.Or(by, strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	m.sessions.sorted = out
	return out
}

// fits reports whether a session matches a search; for a path, whether it holds
// or waits for a lock there.
func fits(search string, row *sessionRow, more []string) bool {
	if strings.HasPrefix(search, "/") {
		return slices.ContainsFunc(row.Holds, func(h lockapi.Hold) bool { return strings.HasPrefix(h.Path, search) }) ||
			slices.ContainsFunc(row.Waits, func(w lockapi.Wait) bool { return strings.HasPrefix(w.Path, search) })
	}
	return matches(search, row.Name, more...)
}

var sessionColumns = []column[*sessionRow]{
	{title: "SESSION", flex: 16, cell: func(_ *Model, r *sessionRow) cell { return cell{text: called(r.Name, r.ID)} }},
	{title: "LEASE LEFT", width: 18, cell: (*Model).leaseCell},
	{title: "HOLDS", width: 5, right: true, rank: 1, cell: func(_ *Model, r *sessionRow) cell { return cell{text: some(len(r.Holds))} }},
	{title: "WAITS", width: 5, right: true, rank: 1, cell: func(_ *Model, r *sessionRow) cell { return cell{text: some(len(r.Waits))} }},
	{title: "OPEN FOR", width: 8, right: true, rank: 2, cell: func(m *Model, r *sessionRow) cell { return cell{text: m.ago(r.CreatedAt)} }},
	{title: "PRINCIPAL", width: 20, most: 40, rank: 3, cell: func(_ *Model, r *sessionRow) cell { return cell{text: format.Clean(r.Principal)} }},
	{title: "ID", width: 26, rank: 4, cell: func(m *Model, r *sessionRow) cell { return cell{text: format.Clean(r.ID), style: m.paint.dim} }},
}

func (m *Model) leaseCell(r *sessionRow) cell {
	left, ttl := m.left(r), time.Duration(r.TTLMS)*time.Millisecond
	if left < 0 {
		return cell{text: "ttl " + millis(r.TTLMS), style: m.paint.dim}
	}
	c := cell{text: bar(left, ttl, 8) + " " + format.Human(left)}
	if left < ttl/4 {
		c.style, c.tail = m.paint.warn, " !"
	}
	return c
}

// some formats a number, empty for 0.
func some(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
