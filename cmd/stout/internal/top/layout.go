package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
)

// column is one column of a list. A column with flex takes the width that
// others leave, but at least flex; to make room, other columns are dropped, the
// highest rank first. Rank 0 always stays. With spare room a column grows up to
// most.
type column[R any] struct {
	title string
	width int
	most  int
	flex  int
	least int // shrink to this before a column of rank 1 is dropped; 0 for flex
	right bool
	rank  int
	cell  func(*Model, R) cell
}

// cell is the content of a column in a row: text that is safe to print.
type cell struct {
	text, tail string // tail is not truncated
	style      func(...string) string
}

// layout returns the width of each column on a screen; 0 for a dropped one.
func layout[R any](columns []column[R], width int) []int {
	out := make([]int, len(columns))
	for i, c := range columns {
		out[i] = c.width + c.flex
	}
	for format.LineWidth(out) > width {
		last := -1
		for i, c := range columns {
			if out[i] > 0 && c.rank > 0 && (last < 0 || c.rank >= columns[last].rank) {
				last = i
			}
		}
		if last < 0 {
			break
		}
		if at := slices.IndexFunc(columns, func(c column[R]) bool { return c.least > 0 }); at >= 0 && columns[last].rank == 1 && out[at] > columns[at].least {
			out[at] = columns[at].least
			continue
		}
		out[last] = 0
	}
	for i, c := range columns {
		if c.flex > 0 && out[i] > 0 {
			out[i] = max(1, min(out[i]+width-format.LineWidth(out), max(mostFlex, width/3)))
		}
	}
	for i, c := range columns {
		if c.most > 0 && out[i] > 0 {
			out[i] = max(out[i], min(c.most, out[i]+width-format.LineWidth(out)))
		}
	}
	return out
}

// mostFlex is the width from which a flexible column leaves room to others.
const mostFlex = 56

func row[R any](m *Model, r R, columns []column[R], widths []int) string {
	return set(columns, widths, func(c column[R]) cell { return c.cell(m, r) })
}

func heading[R any](m *Model, columns []column[R], widths []int) string {
	return set(columns, widths, func(c column[R]) cell { return cell{text: c.title, style: m.paint.Bold} })
}

// set formats a cell for each visible column.
func set[R any](columns []column[R], widths []int, of func(column[R]) cell) string {
	fields := make([]format.Field, len(columns))
	for i, column := range columns {
		if widths[i] == 0 {
			continue
		}
		c := of(column)
		text := format.Shorten(c.text, widths[i]-ansi.StringWidth(c.tail)) + c.tail
		if c.style != nil && text != "" {
			text = c.style(text)
		}
		fields[i] = format.Field{Text: text, Width: widths[i], Right: column.right}
	}
	return format.Line(fields)
}

// bar draws a part of a whole, readable without colour.
func bar(part, whole time.Duration, width int) string {
	full := 0
	if whole > 0 {
		full = max(0, min(width, int((part*time.Duration(width)+whole/2)/whole)))
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}

func tenths(d time.Duration) string { return fmt.Sprintf("%.1fs", max(0, d).Seconds()) }

func (m *Model) ago(t time.Time) string { return whole(m.now.Sub(t)) }

// whole formats a duration in whole seconds, at least 0.
func whole(d time.Duration) string {
	if d < time.Second {
		return "0s"
	}
	return format.Human(d.Truncate(time.Second))
}

func (m *Model) timeOfDay(t time.Time) string { return format.Clock(t.In(m.zone), m.now.In(m.zone)) }

// wrapped breaks safe text, also long words, into lines of the screen's width,
// at most 80.
func (m *Model) wrapped(text string) []string { return m.hanging("", "", 0, text) }

// hanging breaks text into lines beside a name, which takes some columns after
// an indent.
func (m *Model) hanging(indent, name string, columns int, text string) []string {
	free := len(indent) + columns
	lines := strings.Split(ansi.Wrap(text, max(8, min(80, m.width)-free), ""), "\n")
	for i := range lines {
		lines[i] = indent + fmt.Sprintf("%-*s", columns, name) + lines[i]
		name = ""
	}
	return lines
}

func (m *Model) troubleLines(t *Trouble) []string {
	lines := m.wrapped("! " + t.Text)
	for i := range lines {
		lines[i] = m.paint.Fail(lines[i])
	}
	for _, more := range t.More {
		lines = append(lines, m.hanging("  ", "", 0, more)...)
	}
	return slices.Clip(lines)
}
