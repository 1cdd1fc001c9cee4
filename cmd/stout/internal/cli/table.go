package cli

import (
	"slices"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
)

// column is a table's heading.
type column struct {
	title string
	right bool // aligns numbers by their last digit
	// spare columns are dropped if the terminal is too narrow, highest number
	// first. Columns with 0 always stay.
	spare int
	flex  bool // its cells are shortened if the rest still does not fit
}

func left(title string) column  { return column{title: title} }
func right(title string) column { return column{title: title, right: true} }

func (c column) sparing(rank int) column { c.spare = rank; return c }

// pathColumn is the heading of a column of paths.
func pathColumn() column { return column{title: "PATH", flex: true} }

// leastFlex is the width to which cells are shortened at most.
const leastFlex = 20

// gap is the number of blanks between columns.
const gap = 2

// table writes rows below their headings.
func (u *ui) table(columns []column, rows [][]string) {
	if u.width > 0 {
		columns, rows = fit(columns, rows, u.width)
	}
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.title
	}
	t := table.New().Headers(titles...).Rows(rows...).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderHeader(false).BorderColumn(false).BorderRow(false).
		StyleFunc(func(row, col int) lipgloss.Style {
			style := u.out.plain
			if row == table.HeaderRow {
				style = u.out.head
			}
			if columns[col].right {
				style = style.Align(lipgloss.Right)
			}
			if col < len(columns)-1 {
				style = style.PaddingRight(gap)
			}
			return style
		})
	for line := range strings.Lines(t.Render()) {
		u.printf("%s\n", strings.TrimRight(line, " \n"))
	}
}

// list prints a table of items, or a note instead of an empty one.
func list[T any](u *ui, items []T, none string, columns []column, row func(T) []string) {
	if len(items) == 0 {
		u.note("%s", none)
		return
	}
	u.table(columns, rows(items, row))
}

// fit drops spare columns, and shortens a flexible one, until the rest fits into
// width or no more can be done.
func fit(columns []column, rows [][]string, width int) ([]column, [][]string) {
	columns, rows = slices.Clone(columns), slices.Clone(rows)
	for tableWidth(columns, rows) > width {
		last := 0
		for i, c := range columns {
			if c.spare > columns[last].spare {
				last = i
			}
		}
		if columns[last].spare == 0 {
			shorten(columns, rows, width)
			break
		}
		columns, rows = slices.Delete(columns, last, last+1), without(rows, last)
	}
	return columns, rows
}

// shorten cuts the cells of the flexible column.
func shorten(columns []column, rows [][]string, width int) {
	at := slices.IndexFunc(columns, func(c column) bool { return c.flex })
	if at < 0 {
		return
	}
	others := tableWidth(slices.Delete(slices.Clone(columns), at, at+1), without(rows, at)) + gap
	for i, row := range without(rows, at) {
		rows[i] = slices.Insert(row, at, format.Shorten(rows[i][at], max(leastFlex, width-others)))
	}
}

// without returns rows without a column.
func without(rows [][]string, at int) [][]string {
	out := make([][]string, len(rows))
	for i, row := range rows {
		out[i] = slices.Delete(slices.Clone(row), at, at+1)
	}
	return out
}

func tableWidth(columns []column, rows [][]string) int {
	sum := gap * (len(columns) - 1)
	for i, c := range columns {
		widest := lipgloss.Width(c.title)
		for _, row := range rows {
			widest = max(widest, lipgloss.Width(row[i]))
		}
		sum += widest
	}
	return sum
}
