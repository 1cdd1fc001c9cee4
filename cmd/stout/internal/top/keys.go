package top

import "slices"

// press handles a key, or typed text. No key changes the cell.
func (m *Model) press(key, typed string) {
	if m.typing {
		m.current().press(m, key, typed)
		return
	}
	if m.help {
		if at := move(key, m.scroll, m.height-4, 1<<30); at != m.scroll {
			m.scroll = at
			return
		}
		m.help, m.scroll = false, 0
		if slices.Contains([]string{"?", "esc", "enter", "backspace"}, key) {
			return
		}
	}
	n := len(m.pages)
	switch key {
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
		m.show(int(key[0] - '1'))
	case "tab":
		m.show((m.page + 1) % n)
	case "shift+tab":
		m.show((m.page + n - 1) % n)
	case "esc", "backspace", "h", "left":
		m.back(key)
	default:
		if m.detail.Kind != "" {
			m.scroll = move(key, m.scroll, m.height-4, 1<<30)
		} else {
			m.current().press(m, key, typed)
		}
	}
}

// move returns the new position in a list after a key.
func move(key string, at, page, last int) int {
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

func (m *Model) show(page int) {
	if m.page != page {
		m.files.scope.whole = false // no event reports an empty directory
	}
	m.page = page
	m.closely(Subject{})
}

// closely opens a subject, or the page for none.
func (m *Model) closely(s Subject) {
	m.detail, m.unread, m.scroll = s, true, 0
	m.soon()
}

// back leaves an open subject, a search or a directory.
func (m *Model) back(key string) {
	c := m.current().place()
	switch {
	case m.detail.Kind != "":
		m.closely(Subject{})
	case c != nil && c.search != "" && key == "esc":
		m.typing = true
		m.current().press(m, key, "")
	case m.current() == pane(m.files) && m.dir != "/":
		m.enter(parent(m.dir))
	}
}

var helpText = [][2]string{
	{"1..6, tab", "pages: cell, locks, sessions, files, events, members"},
	{"j k, arrows", "down and up; pgdn and pgup by screens, g and G to the ends"},
	{"enter", "open a lock, a session or a file; open or fold a directory"},
	{"esc", "back; clear the search; in files, parent directory"},
	{"/", "search. A text that begins with / finds paths that begin with it: of locks, files, and the locks that a session holds or waits for. Other words are searched in paths, names, handles, principals and metadata. Long lists are read again only for a path."},
	{"s, r", "next order; reverse it"},
	{"p", "pause the screen; no change is missed"},
	{"q, Ctrl-C", "quit; Ctrl-Z suspends"},
}

func (m *Model) helpLines() []string {
	lines := []string{m.paint.Bold("Keys"), ""}
	for _, k := range helpText {
		lines = append(lines, m.hanging("  ", k[0], 12, k[1])...)
	}
	lines = append(lines, "")
	return append(lines, m.wrapped("Nothing here changes the cell. The data comes from the cell's events, one look at the cell each second, and readings of visible rows. PAUSED, STALE or NO MASTER at the top means that the screen is not current.")...)
}
