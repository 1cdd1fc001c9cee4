package top

import (
	"slices"
	"strings"
	"time"
)

// table is a list of the cell as far as it was read.
type table[R any] struct {
	rows   map[string]R
	of     string    // the prefix or directory that was read
	at     time.Time // of the last reading
	read   bool      // it was completed at least once
	cut    bool      // the list was cut off
	stale  bool
	err    *Trouble
	sorted []R // in display order; nil if it must be sorted again
}

// begin records the state of a part. Entries missing from a complete reading
// are removed at its end.
func (t *table[R]) begin(p Part) {
	t.of, t.at, t.stale, t.sorted, t.err = p.Of, p.At, p.Stale, nil, p.Err
	if p.Err == nil && p.Done {
		t.read, t.cut = true, p.Cut
	}
}

// list is the cursor in a list, bound to the row with a key.
type list struct {
	cursor, offset int
	key            string
	search         string
	sort           int
	reverse        bool
	page           int // visible rows
}

// place puts the cursor on its row and scrolls that row into a window of the
// height.
func (l *list) place(n, height int, find func(key string) int) {
	if l.key != "" && find != nil {
		if at := find(l.key); at >= 0 {
			l.cursor = at
		}
	}
	l.cursor = max(0, min(l.cursor, n-1))
	l.offset = min(l.offset, l.cursor)
	l.offset = max(l.offset, l.cursor-height+1, 0)
	l.offset = max(0, min(l.offset, n-height))
}

// grew records a new first row. The cursor stays on its row, or on the first
// row.
func (l *list) grew() {
	if l.cursor > 0 {
		l.cursor++
		l.offset++
	}
}

// matches reports whether a text contains all words of a search, or, if the
// search begins with a slash, whether path has it as prefix.
func matches(search, path string, more ...string) bool {
	if search == "" {
		return true
	}
	if strings.HasPrefix(search, "/") {
		return strings.HasPrefix(path, search)
	}
	text := strings.ToLower(path + "\n" + strings.Join(more, "\n"))
	return !slices.ContainsFunc(strings.Fields(strings.ToLower(search)), func(word string) bool { return !strings.Contains(text, word) })
}
