package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

type lockRow = record[lockapi.Lock]

func newLocks() *list[lockapi.Lock] {
	return &list[lockapi.Lock]{
		title: "Locks", noun: [2]string{"lock", "locks"}, none: "No lock%s is held, waited for or delayed.",
		records: map[string]*lockRow{}, key: func(r *lockRow) string { return r.item.Path }, columns: lockColumns,
		orders: []order[lockapi.Lock]{
			{"path", func(_ *Model, a, b *lockRow) int { return strings.Compare(a.item.Path, b.item.Path) }},
			{"queue", func(_ *Model, a, b *lockRow) int { return cmp.Compare(b.item.Waiters, a.item.Waiters) }},
			{"held longest", func(m *Model, a, b *lockRow) int { return m.first(a).GrantedAt.Compare(m.first(b).GrantedAt) }},
			{"holder", func(m *Model, a, b *lockRow) int {
				return strings.Compare(m.first(a).SessionName, m.first(b).SessionName)
			}},
		},
		matches: func(r *lockRow, search string) bool {
			var more []string
			for _, h := range r.item.Holders[:min(len(r.item.Holders), 20)] {
				more = append(more, h.SessionName, h.Handle, h.Principal)
			}
			return contains(search, r.item.Path, more...)
		},
		source: (*client.Client).ListLocks, of: (*Model).lockPrefix, again: (*Model).readAgain, tree: (*Model).tree,
		free: func(l lockapi.Lock) bool { return l.State == lockapi.StateFree },
		open: func(m *Model, r *lockRow, key string) {
			if r.dir != "" {
				m.folded[r.dir] = !m.folded[r.dir]
				m.locks.cur.key, m.locks.sorted = r.dir, nil
			} else if key != "space" {
				m.closely(Subject{Lock, r.item.Path})
			}
		},
	}
}

// first returns the first holder of a lock. Free locks come last in any order.
func (m *Model) first(r *lockRow) lockapi.Holder {
	if len(r.item.Holders) == 0 {
		return lockapi.Holder{SessionName: "\U0010ffff", GrantedAt: m.now.Add(time.Hour)}
	}
	return r.item.Holders[0]
}

// lockPrefix returns the prefix of the locks to list. A list that is known as a
// whole is searched as it is.
func (m *Model) lockPrefix() string {
	l := m.locks
	if (l.cut || l.scope.of != "") && !m.typing && strings.HasPrefix(l.cur.search, "/") {
		return l.cur.search
	}
	return ""
}

// doubtful returns the paths of visible locks that may have a new queue or
// delay without an event.
func (m *Model) doubtful() []string {
	var paths []string
	rows := m.locks.rows(m)
	from := min(m.locks.cur.offset, len(rows))
	for _, r := range rows[from:min(from+m.height, len(rows))] {
		if r.dir == "" && (r.doubt || r.item.Waiters > 0 || r.item.DelayRemainingMS > 0) && len(paths) < mostAgain {
			paths = append(paths, r.item.Path)
		}
	}
	return paths
}

// readAgain reads the doubtful locks while their list is shown.
func (m *Model) readAgain() reader {
	paths := m.doubtful()
	if len(paths) == 0 || m.detail.Kind != "" {
		return nil
	}
	c, opts := m.client, options(m.stale())
	return func(ctx context.Context) change {
		began, locks := time.Now(), []lockapi.Lock{}
		for _, path := range paths {
			if l, err := c.ReadLock(ctx, path, opts...); err == nil {
				locks = append(locks, l)
			}
		}
		return func(m *Model) {
			for _, l := range locks {
				m.locks.put(l, began, began)
			}
		}
	}
}

func (m *Model) lockEvent(at time.Time, e lockapi.CellEvent) {
	all := m.locks
	if !strings.HasPrefix(e.Path, all.scope.of) || e.Hold == nil || all.at.IsZero() {
		return
	}
	r := lockRow{item: lockapi.Lock{Path: e.Path}, read: at}
	if known := all.records[e.Path]; known != nil {
		r = *known
	} else if all.cut || len(all.records) >= mostListed {
		return
	}
	all.sorted = nil
	r.changed, r.doubt = at, true
	l := &r.item
	l.Holders = slices.DeleteFunc(slices.Clone(l.Holders), func(h lockapi.Holder) bool { return h.Token == e.Hold.Token })
	switch e.Type {
	case lockapi.EventLockAcquired:
		l.Holders = append(l.Holders, lockapi.Holder{Session: e.Hold.Session, SessionName: e.Hold.SessionName,
			Handle: e.Hold.Handle, Mode: e.Hold.Mode, Token: e.Hold.Token, GrantedAt: at})
		l.Mode, l.Waiters, l.DelayRemainingMS = e.Hold.Mode, max(0, l.Waiters-1), 0
	case lockapi.EventLockContended:
		l.Waiters = max(1, l.Waiters)
	}
	l.State, r.freed = lockapi.StateHeld, time.Time{}
	if len(l.Holders) == 0 {
		l.State, r.freed = lockapi.StateFree, at
	}
	all.records[e.Path] = &r
}

// branch is the place of a row in a tree of paths.
type branch struct {
	dir   string // for a directory; the row has no item
	count int    // locks in it
	depth int
	from  int // start of the displayed name in the path
}

// tree adds a row for each directory with several locks, and omits the contents
// of folded ones. A directory with one entry is part of that entry's name.
func (m *Model) tree(locks []*lockRow) []*lockRow {
	counts := map[string]int{}
	for _, l := range locks {
		for i := range dirs(l.item.Path) {
			counts[l.item.Path[:i]]++
		}
	}
	out := make([]*lockRow, 0, len(locks))
	var open []*lockRow
	for _, l := range locks {
		path := l.item.Path
		open = slices.DeleteFunc(open, func(d *lockRow) bool { return !strings.HasPrefix(path, d.dir) })
		here := func() branch {
			if len(open) == 0 {
				return branch{}
			}
			return branch{depth: len(open), from: len(open[len(open)-1].dir)}
		}
		hidden := slices.ContainsFunc(open, func(d *lockRow) bool { return m.folded[d.dir] })
		for i := range dirs(path) {
			dir, at := path[:i], here()
			next := strings.IndexByte(path[i:], '/') // an only subdirectory represents both
			if hidden || i <= at.from || counts[dir] < 2 || next >= 0 && counts[path[:i+next+1]] == counts[dir] {
				continue
			}
			at.dir, at.count = dir, counts[dir]
			d := &lockRow{branch: at}
			open, out, hidden = append(open, d), append(out, d), m.folded[dir]
		}
		if !hidden {
			shown := *l
			shown.branch = here()
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

var lockColumns = []column[*lockRow]{
	{title: "PATH", flex: 26, least: 17, cell: (*Model).pathCell},
	{title: "STATE", width: 12, cell: (*Model).stateCell},
	{title: "HOLDER", width: 18, most: 48, rank: 1, cell: (*Model).holderCell},
	{title: "QUEUE", width: 5, right: true, cell: func(m *Model, r *lockRow) cell { return cell{text: some(r.item.Waiters), style: m.paint.Warn} }},
	{title: "TOKEN", width: 10, right: true, rank: 3, cell: ofHolder(func(_ *Model, h lockapi.Holder) string { return fmt.Sprint(h.Token) })},
	{title: "HELD", width: 7, right: true, rank: 2, cell: ofHolder(func(m *Model, h lockapi.Holder) string { return m.ago(h.GrantedAt) })},
}

// ofHolder returns a cell about the first holder, empty without one.
func ofHolder(text func(*Model, lockapi.Holder) string) func(*Model, *lockRow) cell {
	return func(m *Model, r *lockRow) cell {
		if len(r.item.Holders) == 0 {
			return cell{}
		}
		return cell{text: text(m, r.item.Holders[0])}
	}
}

func (m *Model) pathCell(r *lockRow) cell {
	indent := strings.Repeat("  ", r.depth)
	switch {
	case r.dir == "":
		return cell{text: indent + format.Clean(r.item.Path[r.from:])}
	case m.folded[r.dir]:
		indent += "+ "
	default:
		indent += "- "
	}
	return cell{text: indent + format.Clean(r.dir[r.from:]), style: m.paint.Bold}
}

func (m *Model) holderCell(r *lockRow) cell {
	switch {
	case r.dir != "":
		return cell{}
	case len(r.item.Holders) == 0:
		return cell{text: "-"}
	}
	c := cell{text: format.Session(r.item.Holders[0].SessionName, r.item.Holders[0].Session)}
	if more := len(r.item.Holders) - 1 + r.item.MoreHolders; more > 0 {
		c.tail = fmt.Sprintf(" +%d", more)
	}
	return c
}

// stateCell shows a lock's state, or the number of locks in a directory.
func (m *Model) stateCell(r *lockRow) cell {
	l := r.item
	left := time.Duration(l.DelayRemainingMS)*time.Millisecond - m.now.Sub(r.read)
	switch {
	case r.dir != "":
		return cell{text: format.Plural(r.count, "lock"), style: m.paint.Faint}
	case l.State == lockapi.StateDelayed || l.DelayRemainingMS > 0 && len(l.Holders) == 0:
		return cell{text: "delay " + whole(left), style: m.paint.Warn}
	case len(l.Holders) == 0:
		return cell{text: "free", style: m.paint.Faint}
	case l.Limit > 0:
		return cell{text: fmt.Sprintf("%s %d/%d", format.Clean(string(l.Mode)), len(l.Holders)+l.MoreHolders, l.Limit), style: m.paint.OK}
	}
	return cell{text: format.Clean(string(l.Mode)), style: m.paint.OK}
}
