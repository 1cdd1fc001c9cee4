package top

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// pane is the content of a page.
type pane interface {
	name() string
	lines(m *Model, height int) []string
	press(m *Model, key, typed string)
	next(m *Model) reader        // what to read now; nil for nothing
	pace(m *Model) time.Duration // the time to the next reading
	place() *cursor              // nil for text
}

// text is a pane of lines that scroll.
type text struct {
	title string
	of    func(m *Model, height int) []string
}

func (t text) name() string                        { return t.title }
func (t text) lines(m *Model, height int) []string { return m.scrolled(t.of(m, height), height) }
func (t text) press(m *Model, key, _ string)       { m.scroll = move(key, m.scroll, m.height-4, 1<<30) }
func (t text) next(*Model) reader                  { return nil }
func (t text) pace(*Model) time.Duration           { return beat }
func (t text) place() *cursor                      { return nil }

// cursor is a place in a list, bound to the row with a key, and the list's
// search and order.
type cursor struct {
	at, offset int
	length     int // rows that match the search
	room       int // visible rows
	key        string
	search     string
	order      int
	reverse    bool
}

type record[T any] struct {
	item    T
	read    time.Time // of its reading
	changed time.Time // time of the last event
	freed   time.Time // when it became free; removed some time later
	doubt   bool      // changed by an event, so partly unknown
	seq     int       // of an event
	branch            // where it is in a tree
}

type order[T any] struct {
	name    string
	compare func(m *Model, a, b *record[T]) int
}

// list is a pane: a list of the cell as far as it was read.
type list[T any] struct {
	title   string
	noun    [2]string // one item, several items
	none    string    // instead of an empty list; %s is where a hedge belongs
	columns []column[*record[T]]
	orders  []order[T]
	key     func(*record[T]) string
	matches func(r *record[T], search string) bool
	tree    func(m *Model, rows []*record[T]) []*record[T] // for the first order; nil for none
	open    func(m *Model, r *record[T], key string)
	source  func(c *client.Client, ctx context.Context, of string, opts ...client.ReadOption) iter.Seq2[T, error]
	of      func(*Model) string // the prefix or directory to read
	rounds  bool                // no events report changes: read the list in a loop
	again   func(*Model) reader // what to read after the list was read; nil for nothing
	free    func(T) bool        // the item exists no more
	heading func(*Model) string // precedes the number of items
	cur     cursor

	records map[string]*record[T]
	scope   scope // what was read
	at      time.Time
	known   bool // it was read at least once
	cut     bool // it was cut off
	err     *Trouble
	sorted  []*record[T] // in display order; nil if it must be sorted again
}

func (l *list[T]) name() string   { return l.title }
func (l *list[T]) place() *cursor { return &l.cur }

// pace spreads the readings in a loop: at most 1000 items each second.
func (l *list[T]) pace(m *Model) time.Duration {
	if l.rounds {
		return m.pace() * time.Duration(max(1, len(l.records)/lockapi.MaxListLimit))
	}
	return beat
}

// scope identifies a reading. Events keep a list from the master up to date,
// even while there is no master.
type scope struct {
	of     string
	missed int
	stale  bool
	whole  bool
}

// content is a list as it was read.
type content[T any] struct {
	scope
	began, at time.Time
	items     []T
	cut       bool // it was cut off
	err       *Trouble
}

// next reads the list once, and then what events omit.
func (l *list[T]) next(m *Model) reader {
	if m.paused || l.source == nil {
		return nil
	}
	want := scope{of: l.of(m), missed: m.missed, stale: m.stale(), whole: true}
	if has := l.scope; has.whole && has.of == want.of && has.missed == want.missed && (want.stale || !has.stale) && !l.rounds {
		if l.again == nil {
			return nil
		}
		return l.again(m)
	}
	c, source := m.client, m.source
	return func(ctx context.Context) change {
		read := l.read(ctx, c, source, want)
		return func(m *Model) { l.add(m, read) }
	}
}

// read reads the list. Each part of it has a time limit.
func (l *list[T]) read(ctx context.Context, c *client.Client, source Source, of scope) content[T] {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(patience, cancel)
	defer silent.Stop()
	out := content[T]{scope: of, began: time.Now()}
	for item, err := range l.source(c, ctx, of.of, options(of.stale)...) {
		if err != nil {
			out.err = describe(source, err)
			break
		}
		out.items = append(out.items, item)
		if out.cut = len(out.items) == mostListed; out.cut {
			break
		}
		if len(out.items)%lockapi.MaxListLimit == 0 {
			_ = ask.Sleep(ctx, partPause)
			silent.Reset(patience)
		}
	}
	out.at = time.Now()
	return out
}

// add stores what was read. Entries missing from it are removed. A later event
// wins over the reading.
func (l *list[T]) add(m *Model, read content[T]) {
	if read.of != l.of(m) {
		return
	}
	l.err, l.at = read.err, read.at
	if read.err != nil {
		return
	}
	if read.of != l.scope.of {
		clear(l.records)
	}
	l.scope, l.known, l.cut, l.sorted = read.scope, true, read.cut, nil
	for _, item := range read.items {
		l.put(item, read.began, read.at)
	}
	l.drop(func(r *record[T]) bool { return r.read.Before(read.began) && r.changed.Before(read.began) })
}

// put stores an item from a reading begun at an instant.
func (l *list[T]) put(item T, began, at time.Time) {
	r := &record[T]{item: item, read: at}
	key := l.key(r)
	known := l.records[key]
	if known != nil && known.changed.After(began) {
		known.doubt = true
		return
	}
	if known != nil {
		r.changed = known.changed
	}
	if l.free != nil && l.free(item) {
		if known == nil {
			return
		}
		if r.freed = known.freed; r.freed.IsZero() {
			r.freed = at
		}
	}
	l.records[key] = r
	l.sorted = nil
}

func (l *list[T]) drop(gone func(*record[T]) bool) {
	for key, r := range l.records {
		if gone(r) {
			delete(l.records, key)
			l.sorted = nil
		}
	}
}

// rows returns the rows in display order.
func (l *list[T]) rows(m *Model) []*record[T] {
	if l.sorted != nil {
		return l.sorted
	}
	c := &l.cur
	out := make([]*record[T], 0, len(l.records))
	for _, r := range l.records {
		if c.search == "" || l.matches(r, c.search) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *record[T]) int {
		by := cmp.Or(l.orders[c.order].compare(m, a, b), l.orders[0].compare(m, a, b))
		if c.reverse {
			by = -by
		}
		return by
	})
	if l.tree != nil && c.order == 0 && !c.reverse {
		out = l.tree(m, out)
	}
	l.sorted = out
	return out
}

func (l *list[T]) lines(m *Model, height int) []string {
	rows, c := l.rows(m), &l.cur
	about := fmt.Sprintf("%s by %s", l.count(), l.orders[c.order].name)
	if l.heading != nil {
		about = l.heading(m) + about
	}
	if c.reverse {
		about += ", reversed"
	}
	if c.search != "" {
		about += fmt.Sprintf("; %d with %q", len(rows), format.Clean(c.search))
	}
	switch {
	case l.err != nil && !l.known:
		return m.troubleLines(l.err)
	case l.err != nil:
		about += "; READ FAILED: " + l.err.Text
	case !l.known:
		about += ", reading..."
	case l.cut:
		about += fmt.Sprintf("; only the first %d are listed: search for a path to see others", mostListed)
	case l.scope.stale:
		about += "; possibly out of date: there was no master"
	}
	lines := m.wrapped(about)
	widths := layout(l.columns, m.width-2)
	c.room = max(1, height-len(lines)-1)
	l.settle(rows)
	if len(rows) == 0 {
		if l.known && c.search == "" {
			lines = append(lines, "", m.paint.Faint(fmt.Sprintf(l.none, m.hedge(" that you may read"))))
		}
		return lines
	}
	lines = append(lines, "  "+heading(m, l.columns, widths))
	for i := c.offset; i < min(len(rows), c.offset+c.room); i++ {
		line := row(m, rows[i], l.columns, widths)
		if i != c.at {
			lines = append(lines, "  "+line)
			continue
		}
		line = ansi.Strip(line)
		lines = append(lines, m.paint.Reverse("> "+line+strings.Repeat(" ", max(0, m.width-2-ansi.StringWidth(line)))))
	}
	return lines
}

func (l *list[T]) count() string {
	n := 0
	for _, r := range l.records {
		if r.freed.IsZero() {
			n++
		}
	}
	return format.PluralOf(n, l.noun[0], l.noun[1])
}

// rowKey returns what identifies a row: a directory, or an item's key.
func (l *list[T]) rowKey(r *record[T]) string { return cmp.Or(r.dir, l.key(r)) }

// settle puts the cursor on its row and scrolls that row into view.
func (l *list[T]) settle(rows []*record[T]) {
	c := &l.cur
	if at := slices.IndexFunc(rows, func(r *record[T]) bool { return c.key != "" && l.rowKey(r) == c.key }); at >= 0 {
		c.at = at
	}
	c.length = len(rows)
	c.at = max(0, min(c.at, len(rows)-1))
	c.offset = max(min(c.offset, c.at), c.at-c.room+1, 0)
	c.offset = max(0, min(c.offset, len(rows)-c.room))
}

func (l *list[T]) press(m *Model, key, typed string) {
	if m.typing {
		m.typing = l.cur.write(key, typed)
		l.sorted = nil
		return
	}
	c, rows := &l.cur, l.rows(m)
	switch key {
	case "/":
		m.typing = true
	case "s":
		c.order, c.reverse, l.sorted = (c.order+1)%len(l.orders), false, nil
	case "S", "r":
		c.reverse, l.sorted = !c.reverse, nil
	case "enter", "l", "right", "space":
		if c.at < len(rows) {
			l.open(m, rows[c.at], key)
			return
		}
	default:
		c.at = move(key, c.at, c.room, len(rows)-1)
	}
	if rows = l.rows(m); c.at < len(rows) {
		c.key = l.rowKey(rows[c.at])
	}
}

// write handles a key in the search field, and reports whether the typing continues.
func (c *cursor) write(key, typed string) bool {
	c.at, c.offset, c.key = 0, 0, ""
	switch key {
	case "enter":
		return false
	case "esc":
		c.search = ""
		return false
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(c.search)
		c.search = c.search[:len(c.search)-n]
	case "ctrl+u":
		c.search = ""
	default:
		if typed = strings.ToValidUTF8(typed, ""); len(c.search)+len(typed) <= lockapi.MaxPathBytes {
			c.search += typed
		}
	}
	return true
}

// contains reports whether a text contains all words of a search, or, if the
// search begins with a slash, whether path has it as prefix.
func contains(search, path string, more ...string) bool {
	if strings.HasPrefix(search, "/") {
		return strings.HasPrefix(path, search)
	}
	text := strings.ToLower(path + "\n" + strings.Join(more, "\n"))
	return !slices.ContainsFunc(strings.Fields(strings.ToLower(search)), func(word string) bool { return !strings.Contains(text, word) })
}
