package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/internal/safetext"
)

// View implements tea.Model.
func (m *Model) View() tea.View {
	if m.drawn == nil {
		v := tea.NewView(m.screen())
		v.AltScreen = true
		m.drawn = &v
	}
	return *m.drawn
}

// screen returns the screen, with exactly its lines and at most its columns.
func (m *Model) screen() string {
	if m.width <= 0 || m.height <= 0 {
		return ""
	}
	top := append(m.headLines(), m.noteLines()...)
	height := max(0, m.height-len(top)-1)
	body := m.body(height)
	lines := append(top, body[:min(len(body), height)]...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:min(len(lines), m.height-1)], m.footLine())
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

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
	name = format.Shorten(name, max(8, m.width-ansi.StringWidth(state)-2))
	head := spread(m.paint.Bold(name), state, m.width)

	var tabs []string
	for p, pane := range m.pages {
		tab := fmt.Sprint(p + 1)
		if m.width >= 64 || p == m.page {
			tab += " " + pane.name()
		}
		if p == m.page {
			tab = m.paint.Reverse("[" + tab + "]")
		} else {
			tab = " " + tab + " "
		}
		tabs = append(tabs, tab)
	}
	return []string{head, strings.Join(tabs, " ")}
}

// spread puts two texts at the ends of a line.
func spread(left, right string, width int) string {
	return left + strings.Repeat(" ", max(2, width-ansi.StringWidth(left)-ansi.StringWidth(right))) + right
}

// state describes in a word how current the screen is.
func (m *Model) state() string {
	switch {
	case m.paused:
		return m.paint.Warn("PAUSED " + whole(m.clock.Sub(m.now)))
	case m.denied() && m.mayBeRead() && m.unheard == nil:
		return m.paint.OK("live")
	case m.denied():
		return m.paint.Warn("DENIED")
	case m.lost != nil && m.lookedAt.IsZero():
		return m.paint.Fail("UNREACHABLE")
	case m.lost != nil:
		return m.paint.Fail("STALE " + whole(m.now.Sub(m.lookedAt)))
	case m.lookedAt.IsZero():
		return "connecting"
	case !ask.InOffice(m.look.Cell):
		return m.paint.Fail("NO MASTER")
	}
	return m.paint.OK("live")
}

// denied reports whether the caller may not observe the cell.
func (m *Model) denied() bool { return m.lost != nil && m.lost.Denied }

// mayBeRead reports whether the current page needs no right to observe the
// cell, so that it may be current.
func (m *Model) mayBeRead() bool {
	if m.detail.Kind != "" {
		return m.detail.Kind != Session
	}
	switch m.current() {
	case m.locks, m.files, m.events:
		return true
	}
	return false
}

func (m *Model) noteLines() []string {
	var lines []string
	if m.lost != nil {
		t := *m.lost
		if !m.lookedAt.IsZero() && !t.Denied {
			t.Text = fmt.Sprintf("%s, since %s. The data is %s old.", strings.TrimSuffix(t.Text, "."), m.timeOfDay(m.lostSince), whole(m.now.Sub(m.lookedAt)))
		}
		lines = m.troubleLines(&t)
	}
	if m.unheard != nil && (m.denied() || m.lost == nil && ask.InOffice(m.look.Cell)) {
		lines = append(lines, m.troubleLines(&Trouble{Text: "Events are not received: " + m.unheard.Text})...)
	}
	for _, n := range m.notes {
		if n.turn && !m.lookedAt.IsZero() && !ask.InOffice(m.look.Cell) {
			continue
		}
		lines = append(lines, m.wrapped("* "+m.timeOfDay(n.at)+" "+n.text)...)
	}
	if most := max(1, m.height/3); len(lines) > most {
		lines = lines[:most]
	}
	return append(lines, "")
}

func (m *Model) body(height int) []string {
	switch {
	case m.help:
		return m.scrolled(m.helpLines(), height)
	case m.detail.Kind != "":
		return m.scrolled(m.detailLines(), height)
	}
	return m.current().lines(m, height)
}

func (m *Model) detailLines() []string {
	title := m.paint.Bold(m.detail.Kind + " " + format.Clean(m.detail.Name))
	lines := strings.Split(ansi.Hardwrap(title, max(8, m.width), true), "\n")
	r := &m.read
	if r.of != m.detail {
		return append(lines, "", m.paint.Faint("Reading..."))
	}
	if age := m.clock.Sub(r.at); age > oldAfter && m.detail.Kind != File {
		lines = append(lines, m.paint.Warn(fmt.Sprintf("STALE: this is %s old", format.Human(age))))
	} else if r.stale {
		lines = append(lines, m.paint.Warn("Possibly out of date: there was no master."))
	}
	lines = append(lines, "")
	if r.err != nil {
		return append(lines, m.troubleLines(r.err)...)
	}
	for line := range strings.Lines(r.text) {
		lines = append(lines, strings.Split(ansi.Wrap(strings.TrimRight(line, "\n"), max(8, m.width), ""), "\n")...)
	}
	return lines
}

// hedge returns text if the caller may not see everything.
func (m *Model) hedge(text string) string {
	if m.look.Cell.Access || m.denied() {
		return text
	}
	return ""
}

func (m *Model) scrolled(lines []string, height int) []string {
	m.scroll = max(0, min(m.scroll, len(lines)-height))
	lines = lines[m.scroll:]
	if len(lines) > height && height > 1 {
		more := len(lines) - height + 1
		return append(lines[:height-1:height-1], m.paint.Faint(fmt.Sprintf("-- %s more --", format.Plural(more, "line"))))
	}
	return lines
}

func (m *Model) footLine() string {
	c := m.current().place()
	keys, at := "", ""
	switch {
	case m.typing:
		hint := "  enter keeps it, esc drops it"
		if m.width < 60 {
			hint = ""
		}
		return m.paint.Bold("search: "+format.Shorten(safetext.Name(c.search), max(8, m.width-12-len(hint)))+"_") + m.paint.Faint(hint)
	case m.help:
		keys = "j/k scroll  esc back  q quit"
	case m.detail.Kind != "":
		keys = "esc back  j/k scroll  p pause  ? help  q quit"
	case c == nil:
		keys = "1-6 or tab pages  j/k scroll  p pause  ? help  q quit"
	default:
		keys = "/ search  s sort  enter open  p pause  ? help  q quit"
		if c.length > 0 {
			at = fmt.Sprintf("%d of %d", c.at+1, c.length)
		}
	}
	if len(keys)+len(at)+2 > m.width {
		keys = "? help  q quit"
	}
	if at == "" || len(keys)+len(at)+2 > m.width {
		return m.paint.Faint(keys)
	}
	return spread(m.paint.Faint(keys), at, m.width)
}
