package top

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/internal/safetext"
)

// View returns the screen, with exactly its lines and at most its columns.
func (m *Model) View() string {
	if m.width <= 0 || m.height <= 0 {
		return ""
	}
	top := append(m.headLines(), m.noteLines()...)
	bottom := m.footLine()
	height := max(0, m.height-len(top)-1)
	body := m.body(height)
	lines := append(top, body[:min(len(body), height)]...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:min(len(lines), m.height-1)], bottom)
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// headLines returns the two head lines of every page.
func (m *Model) headLines() []string {
	name := "stout top"
	if !m.lookedAt.IsZero() {
		name = format.Clean(m.look.Cell.Cell)
		if c := m.look.Cell; c.Master != nil {
			name += fmt.Sprintf("  master %s, epoch %d", format.Clean(c.Master.ID), c.Epoch)
		} else {
			name += "  NO MASTER"
		}
	}
	state := m.timeOfDay(m.clock) + "  " + m.state()
	room := m.width - ansi.StringWidth(state) - 2
	name = middle(name, max(8, room))
	head := m.paint.head(name) + strings.Repeat(" ", max(2, m.width-ansi.StringWidth(name)-ansi.StringWidth(state))) + state

	var tabs []string
	for p := cellPage; p <= membersPage; p++ {
		tab := fmt.Sprint(int(p))
		if m.width >= 64 || p == m.page {
			tab += " " + titles[p]
		}
		if p == m.page {
			tab = m.paint.chosen("[" + tab + "]")
		} else {
			tab = " " + tab + " "
		}
		tabs = append(tabs, tab)
	}
	return []string{head, strings.Join(tabs, " ")}
}

// state describes in a word how current the screen is.
func (m *Model) state() string {
	switch {
	case m.paused:
		return m.paint.warn("PAUSED " + whole(m.clock.Sub(m.now)))
	case m.lost != nil && m.lost.Denied && m.mayBeRead() && m.unheard == nil:
		return m.paint.good("live")
	case m.lost != nil && m.lost.Denied:
		return m.paint.warn("DENIED")
	case m.lost != nil && m.lookedAt.IsZero():
		return m.paint.fail("UNREACHABLE")
	case m.lost != nil:
		return m.paint.fail("STALE " + whole(m.now.Sub(m.lookedAt)))
	case m.lookedAt.IsZero():
		return "connecting"
	case !inOffice(m.look.Cell):
		return m.paint.fail("NO MASTER")
	}
	return m.paint.good("live")
}

// mayBeRead reports whether the current page needs no right to observe the
// cell, so that it may be current.
func (m *Model) mayBeRead() bool {
	if m.detail.Kind != noKind {
		return m.detail.Kind != sessionKind
	}
	return m.page == locksPage || m.page == filesPage || m.page == eventsPage
}

// noteLines returns the notes shown on every page.
func (m *Model) noteLines() []string {
	var lines []string
	if m.lost != nil {
		t := *m.lost
		if !m.lookedAt.IsZero() && !t.Denied {
			t.Text = fmt.Sprintf("%s, since %s. The data is %s old.", strings.TrimSuffix(t.Text, "."), m.timeOfDay(m.lostSince), whole(m.now.Sub(m.lookedAt)))
		}
		lines = m.troubleLines(&t)
	}
	if m.unheard != nil && (m.lost == nil && inOffice(m.look.Cell) || m.lost != nil && m.lost.Denied) {
		lines = append(lines, m.troubleLines(&Trouble{Text: "Events are not received: " + m.unheard.Text})...)
	}
	for _, n := range m.notes {
		if n.turn && !m.lookedAt.IsZero() && !inOffice(m.look.Cell) {
			continue
		}
		lines = append(lines, m.wrapped("* "+m.timeOfDay(n.at)+" "+n.text)...)
	}
	if most := max(1, m.height/3); len(lines) > most {
		lines = lines[:most]
	}
	return append(lines, "")
}

// body returns the lines below the head.
func (m *Model) body(height int) []string {
	switch {
	case m.help:
		return m.scrolled(m.helpLines(), height)
	case m.detail.Kind != noKind:
		return m.scrolled(m.detailLines(), height)
	}
	switch m.page {
	case cellPage:
		return m.scrolled(m.cellLines(height), height)
	case locksPage:
		rows := m.lockRows()
		none := fmt.Sprintf("No lock%s is held, waited for or delayed.", m.hedge(" that you may read"))
		return listLines(m, height, lockColumns, rows, &m.locks, none,
			func(i int) string { return rows[i].key() }, m.lockWords())
	case sessionsPage:
		rows := m.sessionRows()
		return listLines(m, height, sessionColumns, rows, &m.sessions, "No session is open.",
			func(i int) string { return rows[i].ID },
			fmt.Sprintf("%s by %s", format.Plural(len(m.sessions.rows), "session"), m.order()))
	case filesPage:
		rows := m.fileRows()
		return listLines(m, height, fileColumns, rows, &m.files, fmt.Sprintf("There is nothing here%s.", m.hedge(" that you may read")),
			func(i int) string { return rows[i].Path },
			fmt.Sprintf("%s: %s by %s", format.Clean(m.dir), format.PluralOf(len(m.files.rows), "entry", "entries"), m.order()))
	case eventsPage:
		rows := m.eventRows()
		known := table[*seen]{read: true}
		return listLines(m, height, eventColumns, rows, &known, fmt.Sprintf("No change%s since stout top was started.", m.hedge(" that you may read")),
			nil, format.Plural(len(m.events), "event")+", newest first")
	}
	return m.scrolled(m.membersLines(), height)
}

// hedge returns text if the caller may not see everything.
func (m *Model) hedge(text string) string {
	if m.look.Cell.Access || m.lost != nil && m.lost.Denied {
		return text
	}
	return ""
}

func (m *Model) lockWords() string {
	n := 0
	for _, row := range m.locks.rows {
		if row.freed.IsZero() {
			n++
		}
	}
	return fmt.Sprintf("%s by %s", format.Plural(n, "lock"), m.order())
}

// order describes the sorting of the page.
func (m *Model) order() string {
	name := m.sorts()[m.current().sort]
	if m.current().reverse {
		name += ", reversed"
	}
	return name
}

// sorts returns the possible orders of the page.
func (m *Model) sorts() []string {
	var names []string
	switch m.page {
	case locksPage:
		for _, s := range lockSorts {
			names = append(names, s.name)
		}
	case sessionsPage:
		for _, s := range sessionSorts {
			names = append(names, s.name)
		}
	case filesPage:
		for _, s := range fileSorts {
			names = append(names, s.name)
		}
	}
	return names
}

// listLines returns the visible part of a list.
func listLines[R any](m *Model, height int, columns []column[R], rows []R, t *table[R], none string, key func(int) string, about string) []string {
	l := m.current()
	if l.search != "" {
		about += fmt.Sprintf("; %d with %q", len(rows), format.Clean(l.search))
	}
	switch {
	case t.err != nil && !t.read:
		return m.troubleLines(t.err)
	case t.err != nil:
		about += "; READ FAILED: " + t.err.Text
	case !t.read:
		about += ", reading..."
	case t.cut:
		about += fmt.Sprintf("; only the first %d are listed: search for a path to see others", mostListed)
	case t.stale:
		about += "; possibly out of date: there was no master"
	}
	lines := m.wrapped(about)
	widths := layout(columns, m.width-2)
	room := max(1, height-len(lines)-1)
	find := func(wanted string) int {
		if key == nil {
			return -1
		}
		for i := range rows {
			if key(i) == wanted {
				return i
			}
		}
		return -1
	}
	l.place(len(rows), room, find)
	l.page = room
	if len(rows) == 0 {
		if t.read && l.search == "" {
			lines = append(lines, "", m.paint.dim(none))
		}
		return lines
	}
	lines = append(lines, "  "+heading(m, columns, widths))
	for i := l.offset; i < min(len(rows), l.offset+room); i++ {
		if i != l.cursor {
			lines = append(lines, "  "+row(m, rows[i], columns, widths))
			continue
		}
		text := ansi.Strip(row(m, rows[i], columns, widths))
		lines = append(lines, m.paint.chosen("> "+text+strings.Repeat(" ", max(0, m.width-2-ansi.StringWidth(text)))))
	}
	return lines
}

// scrolled returns the visible part of lines.
func (m *Model) scrolled(lines []string, height int) []string {
	m.scroll = max(0, min(m.scroll, len(lines)-height))
	lines = lines[m.scroll:]
	if len(lines) > height && height > 1 {
		more := len(lines) - height + 1
		return append(lines[:height-1:height-1], m.paint.dim(fmt.Sprintf("-- %s more --", format.Plural(more, "line"))))
	}
	return lines
}

// footLine lists the keys.
func (m *Model) footLine() string {
	if m.typing {
		hint := "  enter keeps it, esc drops it"
		if m.width < 60 {
			hint = ""
		}
		return m.paint.head("search: "+middle(safetext.Name(m.current().search), max(8, m.width-12-len(hint)))+"_") + m.paint.dim(hint)
	}
	var keys string
	switch {
	case m.help:
		keys = "j/k scroll  esc back  q quit"
	case m.detail.Kind != noKind:
		keys = "esc back  j/k scroll  p pause  ? help  q quit"
	case m.page == eventsPage:
		keys = "/ search  enter detail  p pause  ? help  q quit"
	case m.sorts() != nil:
		keys = "/ search  s sort  enter open  p pause  ? help  q quit"
	default:
		keys = "1-6 or tab pages  j/k scroll  p pause  ? help  q quit"
	}
	l := m.current()
	if n, shown := m.length(), m.help || m.detail.Kind != noKind; n > 0 && !shown {
		at := fmt.Sprintf("%d of %d", l.cursor+1, n)
		if pad := m.width - ansi.StringWidth(keys) - len(at); pad >= 2 {
			return m.paint.dim(keys) + strings.Repeat(" ", pad) + at
		}
		keys = "? help  q quit"
		if pad := m.width - ansi.StringWidth(keys) - len(at); pad >= 2 {
			return m.paint.dim(keys) + strings.Repeat(" ", pad) + at
		}
	}
	if len(keys) > m.width {
		keys = "? help  q quit"
	}
	return m.paint.dim(keys)
}

// length returns the number of rows of the page.
func (m *Model) length() int {
	switch m.page {
	case locksPage:
		return len(m.lockRows())
	case sessionsPage:
		return len(m.sessionRows())
	case filesPage:
		return len(m.fileRows())
	case eventsPage:
		return len(m.eventRows())
	}
	return 0
}
