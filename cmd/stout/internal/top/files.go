package top

import (
	"cmp"
	"strings"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

type fileRow = record[client.DirEntry]

func newFiles() *list[client.DirEntry] {
	return &list[client.DirEntry]{
		title: "Files", noun: [2]string{"entry", "entries"}, none: "There is nothing here%s.",
		records: map[string]*fileRow{}, key: func(r *fileRow) string { return r.item.Path }, columns: fileColumns,
		orders: []order[client.DirEntry]{
			{"name", func(_ *Model, a, b *fileRow) int { return strings.Compare(a.item.Path, b.item.Path) }},
			{"size", byFile(func(a, b *client.File) int { return cmp.Compare(b.Size, a.Size) })},
			{"newest", byFile(func(a, b *client.File) int { return b.ModifiedAt.Compare(a.ModifiedAt) })},
		},
		matches: func(r *fileRow, search string) bool { return contains(search, r.item.Path) },
		source:  (*client.Client).ReadDir,
		of:      func(m *Model) string { return m.dir },
		heading: func(m *Model) string { return format.Clean(m.dir) + ": " },
		open: func(m *Model, r *fileRow, _ string) {
			if r.item.File == nil {
				m.enter(r.item.Path)
			} else {
				m.closely(Subject{File, r.item.Path})
			}
		},
	}
}

// byFile orders files, behind directories.
func byFile(compare func(a, b *client.File) int) func(*Model, *fileRow, *fileRow) int {
	return func(_ *Model, a, b *fileRow) int {
		switch a, b := a.item.File, b.item.File; {
		case a != nil && b != nil:
			return compare(a, b)
		case a == nil && b != nil:
			return -1
		case a != nil:
			return 1
		}
		return 0
	}
}

// enter opens a directory. Upwards, the cursor is put on the former one.
func (m *Model) enter(dir string) {
	l := m.files
	l.scope.whole = false
	l.cur = cursor{order: l.cur.order, reverse: l.cur.reverse}
	if up, ok := strings.CutPrefix(m.dir, dir); ok && up != "" {
		l.cur.key = dir + up[:strings.IndexByte(up, '/')+1]
	}
	m.dir = dir
	clear(l.records)
	l.sorted, l.known, l.err = nil, false, nil
	m.soon()
}

func parent(dir string) string {
	return dir[:strings.LastIndexByte(strings.TrimSuffix(dir, "/"), '/')+1]
}

// fileEvent updates the directory by an event. An empty subdirectory disappears
// at the next reading.
func (m *Model) fileEvent(at time.Time, e lockapi.CellEvent) {
	all := m.files
	name, in := strings.CutPrefix(e.Path, m.dir)
	if !in || all.at.IsZero() {
		return
	}
	all.sorted = nil
	entry := client.DirEntry{Path: e.Path}
	if i := strings.IndexByte(name, '/'); i >= 0 {
		entry.Path = m.dir + name[:i+1]
		if e.Type == lockapi.EventFileDeleted || all.records[entry.Path] != nil {
			return
		}
	} else if e.Type == lockapi.EventFileDeleted {
		delete(all.records, e.Path)
		return
	} else if e.File == nil {
		return
	} else {
		entry.File = &client.File{FileStat: e.File.FileStat}
	}
	if len(all.records) < mostListed {
		all.records[entry.Path] = &fileRow{item: entry, read: at, changed: at}
	}
}

var fileColumns = []column[*fileRow]{
	{title: "NAME", flex: 16, cell: func(m *Model, r *fileRow) cell {
		name := cell{text: format.Clean(strings.TrimPrefix(r.item.Path, m.dir))}
		if r.item.File == nil {
			name.style = m.paint.Bold
		}
		return name
	}},
	{title: "SIZE", width: 10, right: true, cell: func(m *Model, r *fileRow) cell {
		if r.item.File == nil {
			return cell{text: "directory", style: m.paint.Faint}
		}
		return cell{text: format.Bytes(int64(r.item.File.Size))}
	}},
	{title: "GEN", width: 5, right: true, rank: 2, cell: ofFile(func(_ *Model, f *client.File) string { return some(int(f.Generation)) })},
	{title: "WRITTEN", width: 10, right: true, rank: 1, cell: ofFile(func(m *Model, f *client.File) string { return m.ago(f.ModifiedAt) + " ago" })},
	{title: "BY", width: 20, most: 40, rank: 3, cell: ofFile(func(_ *Model, f *client.File) string { return format.Clean(f.Principal) })},
	{title: "ENDS WITH SESSION", width: 26, rank: 4, cell: ofFile(func(_ *Model, f *client.File) string { return format.Clean(f.Session) })},
}

// ofFile returns a cell that is empty for a directory.
func ofFile(text func(*Model, *client.File) string) func(*Model, *fileRow) cell {
	return func(m *Model, r *fileRow) cell {
		if r.item.File == nil {
			return cell{}
		}
		return cell{text: text(m, r.item.File)}
	}
}
