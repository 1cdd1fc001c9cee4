package format

import (
	"io"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"
)

// Styles has the styles of text, in the terminal's own sixteen colours, which are
// readable on dark and on light. A style never carries information of its own.
type Styles struct{ Faint, OK, Warn, Fail, Bold, Reverse func(...string) string }

// NewStyles returns the styles for output to w.
func NewStyles(w io.Writer, profile termenv.Profile) Styles {
	r := lipgloss.NewRenderer(w, termenv.WithProfile(profile))
	r.SetColorProfile(profile)
	color := func(c string) lipgloss.Style { return r.NewStyle().Foreground(lipgloss.Color(c)) }
	return Styles{
		Faint: r.NewStyle().Faint(true).Render, OK: color("2").Render, Warn: color("3").Render, Fail: color("1").Bold(true).Render,
		Bold: r.NewStyle().Bold(true).Render, Reverse: r.NewStyle().Reverse(true).Render,
	}
}

// Profile returns the profile of a terminal with or without colour.
func Profile(coloured bool) termenv.Profile {
	if coloured {
		return termenv.ANSI
	}
	return termenv.Ascii
}

// Field is a text that takes some columns of a line.
type Field struct {
	Text  string
	Width int // 0 leaves the field out
	Right bool
}

// gap is the number of blanks between fields.
const gap = 2

// Line returns fields side by side. Texts that are too long are shortened.
func Line(fields []Field) string {
	var parts []string
	for _, f := range fields {
		if f.Width == 0 {
			continue
		}
		text := Shorten(f.Text, f.Width)
		blanks := strings.Repeat(" ", max(0, f.Width-ansi.StringWidth(text)))
		if f.Right {
			text = blanks + text
		} else {
			text += blanks
		}
		parts = append(parts, text)
	}
	return strings.TrimRight(strings.Join(parts, strings.Repeat(" ", gap)), " ")
}

// LineWidth returns the columns that fields of these widths take.
func LineWidth(widths []int) int {
	n := -gap
	for _, w := range widths {
		if w > 0 {
			n += w + gap
		}
	}
	return n
}
