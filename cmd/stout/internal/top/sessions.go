package top

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

type sessionRow = record[lockapi.SessionState]

func newSessions() *list[lockapi.SessionState] {
	return &list[lockapi.SessionState]{
		title: "Sessions", noun: [2]string{"session", "sessions"}, none: "No session is open.%.0s",
		records: map[string]*sessionRow{}, key: func(r *sessionRow) string { return r.item.ID }, columns: sessionColumns,
		orders: []order[lockapi.SessionState]{
			{"name", func(_ *Model, a, b *sessionRow) int {
				return cmp.Or(strings.Compare(a.item.Name, b.item.Name), strings.Compare(a.item.ID, b.item.ID))
			}},
			{"lease left", func(m *Model, a, b *sessionRow) int { return cmp.Compare(m.left(a), m.left(b)) }},
			{"holds", func(_ *Model, a, b *sessionRow) int { return cmp.Compare(len(b.item.Holds), len(a.item.Holds)) }},
			{"waits", func(_ *Model, a, b *sessionRow) int { return cmp.Compare(len(b.item.Waits), len(a.item.Waits)) }},
			{"oldest", func(_ *Model, a, b *sessionRow) int { return a.item.CreatedAt.Compare(b.item.CreatedAt) }},
		},
		matches: sessionMatches,
		source: func(c *client.Client, ctx context.Context, _ string, opts ...client.ReadOption) iter.Seq2[lockapi.SessionState, error] {
			return admin.New(c).ListSessions(ctx, opts...)
		},
		of: func(*Model) string { return "" }, rounds: true,
		open: func(m *Model, r *sessionRow, _ string) { m.closely(Subject{Session, r.item.ID}) },
	}
}

// sessionMatches reports whether a session matches a search; for a path, whether
// it holds or waits for a lock there.
func sessionMatches(r *sessionRow, search string) bool {
	s := r.item
	if strings.HasPrefix(search, "/") {
		return slices.ContainsFunc(s.Holds, func(h lockapi.Hold) bool { return strings.HasPrefix(h.Path, search) }) ||
			slices.ContainsFunc(s.Waits, func(w lockapi.Wait) bool { return strings.HasPrefix(w.Path, search) })
	}
	more := []string{s.ID, s.Principal}
	for k, v := range s.Meta {
		more = append(more, k, v)
	}
	for _, h := range s.Holds[:min(len(s.Holds), 20)] {
		more = append(more, h.Path)
	}
	return contains(search, s.Name, more...)
}

// left returns the time left of a session's lease, counted from its reading;
// below zero if unknown.
func (m *Model) left(r *sessionRow) time.Duration {
	if r.item.LeaseRemainingMS == nil {
		return -1
	}
	return max(0, time.Duration(*r.item.LeaseRemainingMS)*time.Millisecond-m.now.Sub(r.read))
}

var sessionColumns = []column[*sessionRow]{
	{title: "SESSION", flex: 16, cell: func(_ *Model, r *sessionRow) cell { return cell{text: format.Session(r.item.Name, r.item.ID)} }},
	{title: "LEASE LEFT", width: 18, cell: (*Model).leaseCell},
	{title: "HOLDS", width: 5, right: true, rank: 1, cell: func(_ *Model, r *sessionRow) cell { return cell{text: some(len(r.item.Holds))} }},
	{title: "WAITS", width: 5, right: true, rank: 1, cell: func(_ *Model, r *sessionRow) cell { return cell{text: some(len(r.item.Waits))} }},
	{title: "OPEN FOR", width: 8, right: true, rank: 2, cell: func(m *Model, r *sessionRow) cell { return cell{text: m.ago(r.item.CreatedAt)} }},
	{title: "PRINCIPAL", width: 20, most: 40, rank: 3, cell: func(_ *Model, r *sessionRow) cell { return cell{text: format.Clean(r.item.Principal)} }},
	{title: "ID", width: 26, rank: 4, cell: func(m *Model, r *sessionRow) cell { return cell{text: format.Clean(r.item.ID), style: m.paint.Faint} }},
}

func (m *Model) leaseCell(r *sessionRow) cell {
	left, ttl := m.left(r), time.Duration(r.item.TTLMS)*time.Millisecond
	if left < 0 {
		return cell{text: "ttl " + format.MS(r.item.TTLMS), style: m.paint.Faint}
	}
	c := cell{text: bar(left, ttl, 8) + " " + format.Human(left)}
	if left < ttl/4 {
		c.style, c.tail = m.paint.Warn, " !"
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
