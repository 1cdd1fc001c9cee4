package ui

import (
	"slices"

	"github.com/charmbracelet/lipgloss"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
)

// Column is a table's heading.
type Column struct {
	title string
	right bool // aligns numbers by their last digit
	// spare columns are dropped if the terminal is too narrow, highest number
	// first. Columns with 0 always stay.
	spare int
	flex  bool // its cells are shortened if the rest still does not fit
}

// Left and Right return columns by their alignment.
func Left(title string) Column  { return Column{title: title} }
func Right(title string) Column { return Column{title: title, right: true} }

func (c Column) Drop(rank int) Column { c.spare = rank; return c }

// Path is the heading of a column of paths.
func Path() Column { return Column{title: "PATH", flex: true} }

// leastFlex is the width to which cells are shortened at most.
const leastFlex = 20

// Table writes rows below their headings. On a terminal it drops spare columns,
// and shortens a flexible one, until the rest fits or no more can be done.
func (u *UI) Table(columns []Column, rows [][]string) {
	widths := fit(columns, rows, u.Width)
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = u.Out.Bold(c.title)
	}
	for _, row := range append([][]string{titles}, rows...) {
		fields := make([]format.Field, len(columns))
		for i, c := range columns {
			fields[i] = format.Field{Text: row[i], Width: widths[i], Right: c.right}
		}
		u.Printf("%s\n", format.Line(fields))
	}
}

// List prints a table of items, or a note instead of an empty one.
func List[T any](u *UI, items []T, none string, columns []Column, row func(T) []string) {
	if len(items) == 0 {
		u.Note("%s", none)
		return
	}
	u.Table(columns, Rows(items, row))
}

// fit returns the width of each column on a terminal, or without one if most is
// 0. The width of a dropped column is 0.
func fit(columns []Column, rows [][]string, most int) []int {
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
		if at := slices.IndexFunc(columns, func(c Column) bool { return c.flex }); at >= 0 {
			widths[at] = max(min(widths[at], leastFlex), widths[at]-format.LineWidth(widths)+most)
		}
		break
	}
	return widths
}
