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

// sessionRow is what is known of a session.
type sessionRow struct {
	lockapi.SessionState
	at time.Time
}

// sessionsRead takes a part of the list of sessions. They come and go without
// events: the list is read again and again, a part at a time.
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

// left is what is left of a session's lease, counted on from its reading; below
// zero where that is not known.
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

// fits says whether a session is searched for; by a path, whether it holds
// something there.
func fits(search string, row *sessionRow, more []string) bool {
	if strings.HasPrefix(search, "/") {
		return slices.ContainsFunc(row.Holds, func(h lockapi.Hold) bool { return strings.HasPrefix(h.Path, search) }) ||
			slices.ContainsFunc(row.Waits, func(w lockapi.Wait) bool { return strings.HasPrefix(w.Path, search) })
	}
	return matches(search, row.Name, more...)
}

var sessionColumns = []column{
	{title: "SESSION", flex: 16}, {title: "LEASE LEFT", width: 18}, {title: "HOLDS", width: 5, right: true, rank: 1},
	{title: "WAITS", width: 5, right: true, rank: 1}, {title: "OPEN FOR", width: 8, right: true, rank: 2},
	{title: "PRINCIPAL", width: 20, most: 40, rank: 3}, {title: "ID", width: 26, rank: 4},
}

func (m *Model) sessionCells(r *sessionRow) []cell {
	lease := cell{text: "ttl " + millis(r.TTLMS), style: m.paint.dim}
	if left := m.left(r); left >= 0 {
		ttl := time.Duration(r.TTLMS) * time.Millisecond
		lease = cell{text: bar(left, ttl, 8) + " " + format.Human(left)}
		if left < ttl/4 {
			lease.style = m.paint.warn
			lease.tail = " !"
		}
	}
	return []cell{
		{text: called(r.Name, r.ID)}, lease, {text: some(len(r.Holds))}, {text: some(len(r.Waits))},
		{text: m.ago(r.CreatedAt)}, {text: format.Clean(r.Principal)}, {text: format.Clean(r.ID), style: m.paint.dim},
	}
}

// some is a number that is only worth showing where it is one.
func some(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
