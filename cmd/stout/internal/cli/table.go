package cli

import (
	"slices"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
)

// column is a table's heading.
type column struct {
	title string
	right bool // aligns numbers by their last digit
	// spare columns are dropped if the terminal is too narrow, highest number
	// first. Columns with 0 always stay.
	spare int
}

func left(title string) column  { return column{title: title} }
func right(title string) column { return column{title: title, right: true} }

func (c column) sparing(rank int) column { c.spare = rank; return c }

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

// fit drops spare columns until the rest fits into width or only fixed columns
// remain.
func fit(columns []column, rows [][]string, width int) ([]column, [][]string) {
	columns = slices.Clone(columns)
	rows = slices.Clone(rows)
	for tableWidth(columns, rows) > width {
		last := 0
		for i, c := range columns {
			if c.spare > columns[last].spare {
				last = i
			}
		}
		if columns[last].spare == 0 {
			break
		}
		columns = slices.Delete(columns, last, last+1)
		for i := range rows {
			rows[i] = slices.Delete(slices.Clone(rows[i]), last, last+1)
		}
	}
	return columns, rows
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
