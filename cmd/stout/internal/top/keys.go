package top

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
)

// press handles a key. No key changes the cell.
func (m *Model) press(k Key) {
	if m.typing {
		m.write(k)
		return
	}
	if m.help {
		if at := m.move(k.Name, m.scroll, m.height-4, 1<<30); at != m.scroll {
			m.scroll = at
			return
		}
		m.help, m.scroll = false, 0
		if slices.Contains([]string{"?", "esc", "enter", "backspace"}, k.Name) {
			return
		}
	}
	switch k.Name {
	case "q":
		m.over = true
	case "?":
		m.help, m.scroll = true, 0
	case "p":
		if m.paused {
			m.resume()
		} else {
			m.paused = true
		}
	case "1", "2", "3", "4", "5", "6":
		m.show(page(k.Name[0] - '0'))
	case "tab":
		m.show(m.page%membersPage + 1)
	case "shift+tab":
		m.show((m.page+membersPage-2)%membersPage + 1)
	case "esc", "backspace", "h", "left":
		m.back(k.Name)
	default:
		if m.detail.Kind != noKind || m.sorts() == nil && m.page != eventsPage {
			m.scroll = m.move(k.Name, m.scroll, m.height-4, 1<<30)
			return
		}
		m.inList(k)
	}
}

// inList handles the keys of a list.
func (m *Model) inList(k Key) {
	l := m.current()
	switch k.Name {
	case "/":
		m.typing = true
	case "s":
		if n := len(m.sorts()); n > 0 {
			l.sort, l.reverse = (l.sort+1)%n, false
		}
		m.unsorted()
	case "S", "r":
		l.reverse = m.sorts() != nil && !l.reverse
		m.unsorted()
	case "enter", "l", "right", "space":
		m.open(k.Name)
	default:
		l.cursor = m.move(k.Name, l.cursor, l.page, m.length()-1)
	}
	if l.cursor >= 0 && l.cursor < m.length() {
		l.key = m.keyAt(l.cursor)
	}
}

// move returns the new position in a list after a key.
func (m *Model) move(key string, at, page, last int) int {
	switch key {
	case "down", "j":
		at++
	case "up", "k":
		at--
	case "pgdown", "ctrl+f", "ctrl+d":
		at += max(1, page-1)
	case "pgup", "ctrl+b", "ctrl+u":
		at -= max(1, page-1)
	case "home", "g":
		at = 0
	case "end", "G":
		at = last
	}
	return max(0, min(at, last))
}

func (m *Model) keyAt(i int) string {
	switch m.page {
	case locksPage:
		return m.lockRows()[i].key()
	case sessionsPage:
		return m.sessionRows()[i].ID
	case filesPage:
		return m.fileRows()[i].Path
	}
	return ""
}

// show opens a page.
func (m *Model) show(p page) {
	m.page, m.detail, m.scroll = p, subject{}, 0
}

// back leaves an open subject, a search or a directory.
func (m *Model) back(key string) {
	l := m.current()
	m.scroll = 0
	switch {
	case m.detail.Kind != noKind:
		m.detail = subject{}
	case l.search != "" && key == "esc":
		l.search = ""
		m.unsorted()
	case m.page == filesPage && m.dir != "/":
		m.enter(parent(m.dir))
	}
}

// open opens the row of the cursor, or its directory.
func (m *Model) open(key string) {
	l := m.current()
	if l.cursor < 0 || l.cursor >= m.length() {
		return
	}
	switch m.page {
	case locksPage:
		switch row := m.lockRows()[l.cursor]; {
		case row.dir != "":
			m.folded[row.dir] = !m.folded[row.dir]
			m.unsorted()
		case key != "space":
			m.closely(subject{lockKind, row.Path})
		}
	case sessionsPage:
		m.closely(subject{sessionKind, m.sessionRows()[l.cursor].ID})
	case filesPage:
		if row := m.fileRows()[l.cursor]; row.File == nil {
			m.enter(row.Path)
		} else {
			m.closely(subject{fileKind, row.Path})
		}
	case eventsPage:
		switch e := m.eventRows()[l.cursor]; e.Type.Subject() {
		case lockapi.SubjectLock:
			m.closely(subject{lockKind, e.Path})
		case lockapi.SubjectFile:
			m.closely(subject{fileKind, e.Path})
		}
	}
}

func (m *Model) closely(s subject) { m.detail, m.scroll = s, 0 }

// write handles a key in the search field.
func (m *Model) write(k Key) {
	l := m.current()
	switch k.Name {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, l.search = false, ""
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(l.search)
		l.search = l.search[:len(l.search)-n]
	case "ctrl+u":
		l.search = ""
	default:
		if text := strings.ToValidUTF8(k.Text, ""); len(l.search)+len(text) <= lockapi.MaxPathBytes {
			l.search += text
		}
	}
	l.cursor, l.offset, l.key = 0, 0, ""
	m.unsorted()
}

// unsorted makes the page's rows be sorted again.
func (m *Model) unsorted() {
	m.locks.sorted, m.sessions.sorted, m.files.sorted = nil, nil, nil
}

// helpLines describes the keys.
func (m *Model) helpLines() []string {
	lines := []string{m.paint.head("Keys"), ""}
	for _, k := range [][2]string{
		{"1..6, tab", "pages: cell, locks, sessions, files, events, members"},
		{"j k, arrows", "down and up; pgdn and pgup by screens, g and G to the ends"},
		{"enter", "open a lock, a session or a file; open or fold a directory"},
		{"esc", "back; clear the search; in files, parent directory"},
		{"/", "search. A text that begins with / finds paths that begin with it: of locks, files, and the locks that a session holds or waits for. Other words are searched in paths, names, handles, principals and metadata. Long lists are read again only for a path."},
		{"s, r", "next order; reverse it"},
		{"p", "pause the screen; no change is missed"},
		{"q, Ctrl-C", "quit; Ctrl-Z suspends"},
	} {
		for i, line := range m.broken(k[1], 14) {
			if i > 0 {
				k[0] = ""
			}
			lines = append(lines, "  "+pad(k[0], 12)+line)
		}
	}
	lines = append(lines, "")
	return append(lines, m.wrapped("Nothing here changes the cell. The data comes from the cell's events, one look at the cell each second, and readings of visible rows. PAUSED, STALE or NO MASTER at the top means that the screen is not current.")...)
}

func pad(text string, width int) string { return text + strings.Repeat(" ", max(0, width-len(text))) }
