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

// lockRow is the state of a lock, or a directory of locks.
type lockRow struct {
	lockapi.Lock
	at      time.Time // of its reading
	changed time.Time // time of the last event
	freed   time.Time // when it became free; removed some time later
	doubt   bool      // changed by an event, so partly unknown

	dir   string // for a directory; the fields above are empty
	count int    // locks in it
	depth int
	from  int // start of the displayed name in the path
}

func (r *lockRow) key() string { return cmp.Or(r.dir, r.Path) }

// locksRead adds a part of the list of locks.
func (m *Model) locksRead(p LocksRead) {
	if p.First && p.Of != m.locks.of {
		clear(m.locks.rows)
	}
	m.locks.begin(p.Part)
	for _, l := range p.Locks {
		m.putLock(l, p.Began, p.At)
	}
	if p.Done && p.Err == nil {
		for path, row := range m.locks.rows {
			if row.at.Before(p.Began) && row.changed.Before(p.Began) {
				delete(m.locks.rows, path)
			}
		}
	}
}

// putLock stores a lock from a reading begun at an instant. A later event wins
// over the reading.
func (m *Model) putLock(l lockapi.Lock, began, at time.Time) {
	known := m.locks.rows[l.Path]
	if known != nil && known.changed.After(began) {
		known.doubt = true
		return
	}
	row := &lockRow{Lock: l, at: at}
	if known != nil {
		row.changed, row.freed = known.changed, known.freed
	}
	switch {
	case l.State != lockapi.StateFree:
		row.freed = time.Time{}
	case known == nil:
		return
	case row.freed.IsZero():
		row.freed = at
	}
	m.locks.rows[l.Path] = row
}

// lockEvent updates the row of a lock by an event.
func (m *Model) lockEvent(at time.Time, e lockapi.CellEvent) {
	if !strings.HasPrefix(e.Path, m.locks.of) || e.Hold == nil || m.locks.at.IsZero() {
		return
	}
	m.locks.sorted = nil
	row := &lockRow{Lock: lockapi.Lock{Path: e.Path}, at: at}
	if known := m.locks.rows[e.Path]; known != nil {
		copied := *known
		row = &copied
	} else if m.locks.cut || len(m.locks.rows) >= mostListed {
		return
	}
	row.changed, row.doubt = at, true
	row.Holders = slices.DeleteFunc(slices.Clone(row.Holders), func(h lockapi.Holder) bool { return h.Token == e.Hold.Token })
	switch e.Type {
	case lockapi.EventLockAcquired:
		row.Holders = append(row.Holders, lockapi.Holder{Session: e.Hold.Session, SessionName: e.Hold.SessionName,
			Handle: e.Hold.Handle, Mode: e.Hold.Mode, Token: e.Hold.Token, GrantedAt: at})
		row.Mode, row.Waiters, row.DelayRemainingMS = e.Hold.Mode, max(0, row.Waiters-1), 0
	case lockapi.EventLockContended:
		row.Waiters = max(1, row.Waiters)
	}
	row.State, row.freed = lockapi.StateHeld, time.Time{}
	if len(row.Holders) == 0 {
		row.State, row.freed = lockapi.StateFree, at
	}
	m.locks.rows[e.Path] = row
}

// doubtful returns the paths of visible locks that may have a new queue or
// delay without an event.
func (m *Model) doubtful() []string {
	var out []string
	l := m.lists[locksPage]
	rows := m.lockRows()
	for _, row := range rows[min(l.offset, len(rows)):min(l.offset+m.height, len(rows))] {
		if row.dir == "" && (row.doubt || row.Waiters > 0 || row.DelayRemainingMS > 0) && len(out) < mostAgain {
			out = append(out, row.Path)
		}
	}
	return out
}

// lockSorts lists the orders of locks; the first, by path, is a tree.
var lockSorts = []struct {
	name string
	less func(m *Model, a, b *lockRow) int
}{
	{"path", func(_ *Model, a, b *lockRow) int { return strings.Compare(a.Path, b.Path) }},
	{"queue", func(_ *Model, a, b *lockRow) int { return cmp.Compare(b.Waiters, a.Waiters) }},
	{"held longest", func(m *Model, a, b *lockRow) int { return m.grantedAt(a).Compare(m.grantedAt(b)) }},
	{"holder", func(_ *Model, a, b *lockRow) int { return strings.Compare(holderName(a), holderName(b)) }},
}

// grantedAt returns when a lock was granted; free locks come last.
func (m *Model) grantedAt(r *lockRow) time.Time {
	if len(r.Holders) == 0 {
		return m.now.Add(time.Hour)
	}
	return r.Holders[0].GrantedAt
}

func holderName(r *lockRow) string {
	if len(r.Holders) == 0 {
		return "\U0010ffff"
	}
	return r.Holders[0].SessionName
}

// lockRows returns the rows in display order.
func (m *Model) lockRows() []*lockRow {
	if m.locks.sorted != nil {
		return m.locks.sorted
	}
	l := m.lists[locksPage]
	out := make([]*lockRow, 0, len(m.locks.rows))
	for _, row := range m.locks.rows {
		more := make([]string, 0, 8)
		for _, h := range row.Holders[:min(len(row.Holders), 20)] {
			more = append(more, h.SessionName, h.Handle, h.Principal)
		}
		if matches(l.search, row.Path, more...) {
			out = append(out, row)
		}
	}
	order := lockSorts[l.sort].less
	slices.SortFunc(out, func(a, b *lockRow) int {
		by := order(m, a, b)
		if l.reverse {
			by = -by
		}
		return cmp.Or(by, strings.Compare(a.Path, b.Path))
	})
	if l.sort == 0 && !l.reverse {
		out = m.tree(out)
	}
	m.locks.sorted = out
	return out
}

// tree adds a row for each directory with several locks, and omits the contents
// of folded ones. A directory with one entry is part of that entry's name.
func (m *Model) tree(locks []*lockRow) []*lockRow {
	counts := map[string]int{}
	for _, l := range locks {
		for i := range dirs(l.Path) {
			counts[l.Path[:i]]++
		}
	}
	out := make([]*lockRow, 0, len(locks))
	var open []*lockRow
	for _, l := range locks {
		open = slices.DeleteFunc(open, func(d *lockRow) bool { return !strings.HasPrefix(l.Path, d.dir) })
		if slices.ContainsFunc(open, func(d *lockRow) bool { return m.folded[d.dir] }) {
			continue
		}
		from := func() int {
			if len(open) == 0 {
				return 0
			}
			return len(open[len(open)-1].dir)
		}
		hidden := false
		for i := range dirs(l.Path) {
			dir := l.Path[:i]
			if i <= from() || counts[dir] < 2 || onlyChild(l.Path, i, counts) {
				continue
			}
			d := &lockRow{dir: dir, count: counts[dir], depth: len(open), from: from()}
			open, out = append(open, d), append(out, d)
			if hidden = m.folded[dir]; hidden {
				break
			}
		}
		if !hidden {
			shown := *l
			shown.depth, shown.from = len(open), from()
			out = append(out, &shown)
		}
	}
	return out
}

// dirs yields the end of each directory in a path.
func dirs(path string) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for i := 1; i < len(path); i++ {
			if path[i] == '/' && !yield(i+1) {
				return
			}
		}
	}
}

// onlyChild reports whether the directory that ends at i contains only one
// subdirectory, which then represents both.
func onlyChild(path string, i int, counts map[string]int) bool {
	next := strings.IndexByte(path[i:], '/')
	return next >= 0 && counts[path[:i+next+1]] == counts[path[:i]]
}

var lockColumns = []column[*lockRow]{
	{title: "PATH", flex: 26, least: 17, cell: (*Model).pathCell},
	{title: "STATE", width: 12, cell: (*Model).stateCell},
	{title: "HOLDER", width: 18, most: 48, rank: 1, cell: (*Model).holderCell},
	{title: "QUEUE", width: 5, right: true, cell: func(m *Model, r *lockRow) cell { return cell{text: some(r.Waiters), style: m.paint.warn} }},
	{title: "TOKEN", width: 10, right: true, rank: 3, cell: func(_ *Model, r *lockRow) cell {
		if len(r.Holders) == 0 {
			return cell{}
		}
		return cell{text: fmt.Sprint(r.Holders[0].Token)}
	}},
	{title: "HELD", width: 7, right: true, rank: 2, cell: func(m *Model, r *lockRow) cell {
		if len(r.Holders) == 0 {
			return cell{}
		}
		return cell{text: m.ago(r.Holders[0].GrantedAt)}
	}},
}

func (m *Model) pathCell(r *lockRow) cell {
	indent := strings.Repeat("  ", r.depth)
	switch {
	case r.dir == "":
		return cell{text: indent + format.Clean(r.Path[r.from:])}
	case m.folded[r.dir]:
		return cell{text: indent + "+ " + format.Clean(r.dir[r.from:]), style: m.paint.head}
	}
	return cell{text: indent + "- " + format.Clean(r.dir[r.from:]), style: m.paint.head}
}

// holderCell shows the first holder of a lock and the number of others.
func (m *Model) holderCell(r *lockRow) cell {
	switch {
	case r.dir != "":
		return cell{}
	case len(r.Holders) == 0:
		return cell{text: "-"}
	}
	c := cell{text: called(r.Holders[0].SessionName, r.Holders[0].Session)}
	if more := len(r.Holders) - 1 + r.MoreHolders; more > 0 {
		c.tail = fmt.Sprintf(" +%d", more)
	}
	return c
}

// stateCell shows a lock's state, or the number of locks in a directory.
func (m *Model) stateCell(r *lockRow) cell {
	left := time.Duration(r.DelayRemainingMS)*time.Millisecond - m.now.Sub(r.at)
	switch {
	case r.dir != "":
		return cell{text: format.Plural(r.count, "lock"), style: m.paint.dim}
	case r.State == lockapi.StateDelayed || r.DelayRemainingMS > 0 && len(r.Holders) == 0:
		return cell{text: "delay " + whole(left), style: m.paint.warn}
	case len(r.Holders) == 0:
		return cell{text: "free", style: m.paint.dim}
	case r.Limit > 0:
		return cell{text: fmt.Sprintf("%s %d/%d", format.Clean(string(r.Mode)), len(r.Holders)+r.MoreHolders, r.Limit), style: m.paint.good}
	}
	return cell{text: format.Clean(string(r.Mode)), style: m.paint.good}
}

// called returns a session's name, or the start of its id without one.
func called(name, id string) string {
	if name != "" {
		return format.Clean(name)
	}
	if len(id) > 8 {
		id = id[:8]
	}
	return "session " + format.Clean(id)
}
