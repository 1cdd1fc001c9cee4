package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
	"github.com/muesli/termenv"
	"golang.org/x/term"
)

// This file is all that writes to the terminal. The rules are:
//
//   - Answers go to standard output, everything else to standard error, behind
//     "stout: ". No capital at the start of a message, no full stop at its end.
//   - Colour only on a terminal, each stream for itself, from the terminal's
//     own sixteen; never the only carrier of a meaning.
//   - What comes from the cell may have been chosen by anybody, and is printed
//     through clean.

// ui prints for a person or, with -o json, for a program.
type ui struct {
	out, err palette
	json     bool
}

// palette is one stream and its styles.
type palette struct {
	w                            io.Writer
	plain, dim, good, warn, fail lipgloss.Style
	head                         lipgloss.Style
}

// newUI decides about colour: never where that was turned off by flag or by
// NO_COLOR (no-color.org), and not on a dumb terminal.
func newUI(stdout, stderr *os.File, asJSON, noColor bool) *ui {
	noColor = noColor || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	return &ui{out: newPalette(stdout, noColor), err: newPalette(stderr, noColor), json: asJSON}
}

func newPalette(f *os.File, noColor bool) palette {
	profile := termenv.Ascii
	if !noColor && term.IsTerminal(int(f.Fd())) {
		profile = termenv.ANSI
	}
	return paint(f, profile)
}

func paint(w io.Writer, profile termenv.Profile) palette {
	r := lipgloss.NewRenderer(w, termenv.WithProfile(profile))
	r.SetColorProfile(profile)
	color := func(c string) lipgloss.Style { return r.NewStyle().Foreground(lipgloss.Color(c)) }
	return palette{
		w: w, plain: r.NewStyle(), dim: r.NewStyle().Faint(true), head: r.NewStyle().Bold(true),
		good: color("2"), warn: color("3"), fail: color("1").Bold(true),
	}
}

// printf writes to standard output as is.
func (u *ui) printf(format string, args ...any) { fmt.Fprintf(u.out.w, format, args...) }

// object writes v as indented JSON to standard output.
func (u *ui) object(v any) error {
	e := json.NewEncoder(u.out.w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// pairs writes a list of names and values, the values aligned.
func (u *ui) pairs(pairs ...[2]string) {
	wide := 0
	for _, p := range pairs {
		wide = max(wide, len(p[0]))
	}
	for _, p := range pairs {
		u.printf("%s  %s\n", u.out.dim.Render(fmt.Sprintf("%-*s", wide, p[0])), p[1])
	}
}

// column is a table's heading; right aligns numbers by their last digit.
type column struct {
	title string
	right bool
}

func left(title string) column  { return column{title: title} }
func right(title string) column { return column{title: title, right: true} }

// table writes rows under their headings, with two blanks between columns.
func (u *ui) table(columns []column, rows [][]string) {
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
				style = style.PaddingRight(2)
			}
			return style
		})
	for line := range strings.Lines(t.Render()) {
		u.printf("%s\n", strings.TrimRight(line, " \n"))
	}
}

// note tells something on the side, on standard error.
func (u *ui) note(format string, args ...any) {
	fmt.Fprintf(u.err.w, "stout: %s\n", fmt.Sprintf(format, args...))
}

// failure tells on standard error what went wrong, and below it the details and
// what to do.
func (u *ui) failure(f *failure) {
	fmt.Fprintf(u.err.w, "stout: %s\n", u.err.fail.Render(f.message))
	for _, line := range f.details {
		fmt.Fprintf(u.err.w, "  %s\n", line)
	}
	for _, hint := range f.hints {
		fmt.Fprintf(u.err.w, "%s %s\n", u.err.dim.Render("hint:"), hint)
	}
}

// clean makes foreign text safe to print: what a terminal would obey rather
// than show (control and invisible characters, bad UTF-8) is written as an
// escape, as in Go strings. Empty text is a dash, so that columns stay whole.
func clean(s string) string {
	if s == "" {
		return "-"
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// human writes a duration as people say it, to two or three digits: 120ms,
// 1.2s, 12s, 3m20s, 3h05m, 2d3h.
func human(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + human(-d)
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return strconv.FormatFloat(float64(d.Milliseconds()/100)/10, 'f', -1, 64) + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}

// millis is human for the wire's milliseconds.
func millis(ms int64) string { return human(time.Duration(ms) * time.Millisecond) }

// since is how long ago t was. The cell's clock may be ahead of ours; what lies
// in the future by that was just now.
func since(t time.Time) string { return human(max(0, time.Since(t))) }

// plural is "1 lock", "2 locks".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
