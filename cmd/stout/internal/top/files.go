package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// fileRow is an entry of the current directory.
type fileRow struct {
	client.DirEntry
	changed time.Time // time of the last event
	at      time.Time
}

// enter opens a directory.
func (m *Model) enter(dir string) {
	l := m.lists[filesPage]
	l.key, l.search = "", ""
	if up, ok := strings.CutPrefix(m.dir, dir); ok && up != "" { // upwards: put the cursor on the former directory
		l.key = dir + up[:strings.IndexByte(up, '/')+1]
	}
	m.dir, l.cursor, l.offset = dir, 0, 0
	m.files = table[*fileRow]{rows: map[string]*fileRow{}}
}

// parent returns the parent of a directory.
func parent(dir string) string {
	return dir[:strings.LastIndexByte(strings.TrimSuffix(dir, "/"), '/')+1]
}

func (m *Model) dirRead(p DirRead) {
	if p.Of != m.dir {
		return
	}
	m.files.begin(p.Part)
	for _, e := range p.Entries {
		if known := m.files.rows[e.Path]; known == nil || !known.changed.After(p.Began) {
			m.files.rows[e.Path] = &fileRow{DirEntry: e, at: p.At}
		}
	}
	if p.Done && p.Err == nil {
		for path, row := range m.files.rows {
			if row.at.Before(p.Began) && row.changed.Before(p.Began) {
				delete(m.files.rows, path)
			}
		}
	}
}

// fileEvent updates the directory by an event. An empty subdirectory disappears
// at the next reading.
func (m *Model) fileEvent(at time.Time, e lockapi.CellEvent) {
	name, in := strings.CutPrefix(e.Path, m.dir)
	if !in || m.files.at.IsZero() {
		return
	}
	m.files.sorted = nil
	if i := strings.IndexByte(name, '/'); i >= 0 {
		dir := m.dir + name[:i+1]
		if e.Type != lockapi.EventFileDeleted && m.files.rows[dir] == nil && len(m.files.rows) < mostListed {
			m.files.rows[dir] = &fileRow{DirEntry: client.DirEntry{Path: dir}, changed: at, at: at}
		}
		return
	}
	if e.Type == lockapi.EventFileDeleted {
		delete(m.files.rows, e.Path)
	} else if e.File != nil && len(m.files.rows) < mostListed {
		m.files.rows[e.Path] = &fileRow{DirEntry: client.DirEntry{Path: e.Path, File: &client.File{FileStat: e.File.FileStat}}, changed: at, at: at}
	}
}

var fileSorts = []struct {
	name string
	less func(a, b *client.File) int
}{
	{"name", func(_, _ *client.File) int { return 0 }},
	{"size", func(a, b *client.File) int { return cmp.Compare(b.Size, a.Size) }},
	{"newest", func(a, b *client.File) int { return b.ModifiedAt.Compare(a.ModifiedAt) }},
}

// fileRows returns the rows in display order: directories first, unless sorted
// by name.
func (m *Model) fileRows() []*fileRow {
	if m.files.sorted != nil {
		return m.files.sorted
	}
	l := m.lists[filesPage]
	out := make([]*fileRow, 0, len(m.files.rows))
	for _, row := range m.files.rows {
		if matches(l.search, row.Path) {
			out = append(out, row)
		}
	}
	order := fileSorts[l.sort].less
	slices.SortFunc(out, func(a, b *fileRow) int {
		by := 0
		switch {
		case a.File != nil && b.File != nil:
			by = order(a.File, b.File)
		case l.sort > 0 && a.File == nil && b.File != nil:
			return -1
		case l.sort > 0 && a.File != nil && b.File == nil:
			return 1
		}
		by = cmp.Or(by, strings.Compare(a.Path, b.Path))
		if l.reverse {
			by = -by
		}
		return by
	})
	m.files.sorted = out
	return out
}

var fileColumns = []column[*fileRow]{
	{title: "NAME", flex: 16, cell: func(m *Model, r *fileRow) cell {
		name := cell{text: format.Clean(strings.TrimPrefix(r.Path, m.dir))}
		if r.File == nil {
			name.style = m.paint.head
		}
		return name
	}},
	{title: "SIZE", width: 10, right: true, cell: func(m *Model, r *fileRow) cell {
		if r.File == nil {
			return cell{text: "directory", style: m.paint.dim}
		}
		return cell{text: format.Bytes(int64(r.File.Size))}
	}},
	{title: "GEN", width: 5, right: true, rank: 2, cell: ofFile(func(_ *Model, f *client.File) string { return some(int(f.Generation)) })},
	{title: "WRITTEN", width: 10, right: true, rank: 1, cell: ofFile(func(m *Model, f *client.File) string { return m.ago(f.ModifiedAt) + " ago" })},
	{title: "BY", width: 20, most: 40, rank: 3, cell: ofFile(func(_ *Model, f *client.File) string { return format.Clean(f.Principal) })},
	{title: "ENDS WITH SESSION", width: 26, rank: 4, cell: ofFile(func(_ *Model, f *client.File) string { return format.Clean(f.Session) })},
}

// ofFile returns a cell that is empty for a directory.
func ofFile(text func(*Model, *client.File) string) func(*Model, *fileRow) cell {
	return func(m *Model, r *fileRow) cell {
		if r.File == nil {
			return cell{}
		}
		return cell{text: text(m, r.File)}
	}
}
