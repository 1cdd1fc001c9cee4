package cli

import (
	"slices"

	"github.com/charmbracelet/lipgloss"

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

// table writes rows below their headings. On a terminal it drops spare columns,
// and shortens a flexible one, until the rest fits or no more can be done.
func (u *ui) table(columns []column, rows [][]string) {
	widths := fit(columns, rows, u.width)
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = u.out.Bold(c.title)
	}
	for _, row := range append([][]string{titles}, rows...) {
		fields := make([]format.Field, len(columns))
		for i, c := range columns {
			fields[i] = format.Field{Text: row[i], Width: widths[i], Right: c.right}
		}
		u.printf("%s\n", format.Line(fields))
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

// fit returns the width of each column on a terminal, or without one if most is
// 0. The width of a dropped column is 0.
func fit(columns []column, rows [][]string, most int) []int {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = len(c.title)
		for _, row := range rows {
			widths[i] = max(widths[i], lipgloss.Width(row[i]))
		}
	}
	for most > 0 && format.LineWidth(widths) > most {
		last := 0
		for i, c := range columns {
			if widths[i] > 0 && c.spare > columns[last].spare {
				last = i
			}
		}
		if columns[last].spare > 0 && widths[last] > 0 {
			widths[last] = 0
			continue
		}
		if at := slices.IndexFunc(columns, func(c column) bool { return c.flex }); at >= 0 {
			widths[at] = max(min(widths[at], leastFlex), widths[at]-format.LineWidth(widths)+most)
		}
		break
	}
	return widths
}
