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
	read   bool      // it was read to its end, once at least
	cut    bool      // there is more than is kept
	stale  bool
	err    *Trouble
	sorted []R // as they are shown; nil where that has to be found anew
}

// begin takes what a part says of the list. What was there before and is not in a
// whole reading goes when that ends.
func (t *table[R]) begin(p Part) {
	t.of, t.at, t.stale, t.sorted, t.err = p.Of, p.At, p.Stale, nil, p.Err
	if p.Err == nil && p.Done {
		t.read, t.cut = true, p.Cut
	}
}

// list is where in a list of rows somebody is: at the row with a key, wherever
// that moves to.
type list struct {
	cursor, offset int
	key            string
	search         string
	sort           int
	reverse        bool
	page           int // rows in sight
}

// place puts the cursor on its row and the rows around it into a window of a
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

// grew says that a row came on top. Who looks at the first row goes on to look at
// the newest.
func (l *list) grew() {
	if l.cursor > 0 {
		l.cursor++
		l.offset++
	}
}

// matches says whether all words of a search are in a text, or where it begins
// with a slash, whether a path begins with it.
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
