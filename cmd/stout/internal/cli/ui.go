package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
	"golang.org/x/term"

	"github.com/stoutlock/stout/internal/safetext"
)

// All output goes through this file, and from there through streams.go. The rules:
//
//   - Answers go to standard output. Everything else goes to standard error,
//     prefixed with "stout: ". A message starts without a capital and ends
//     without a full stop.
//   - Colour appears on terminals only, decided per stream, from the terminal's
//     own sixteen colours. It never carries information of its own.
//   - Text from the cell is untrusted and is printed through clean. Messages
//     are cleaned here.
//   - Answers fit into 80 columns, or into a narrower terminal, if their
//     content allows.

// ui prints for a person or, with -o json, for a program.
type ui struct {
	out, err palette
	json     bool
	quiet    bool   // no remarks, and no errors that the exit code implies
	width    int    // columns of the terminal for answers; 0 without one
	screen   bool   // answers go to a terminal
	live     bool   // standard error goes to a terminal, where a line can be rewritten
	errWidth int    // columns of that terminal
	news     string // the kind of the last progress message
}

// pageWidth is the width of text, unless the terminal is narrower.
const pageWidth = 80

// palette is one stream with its styles.
type palette struct {
	w                            io.Writer
	plain, dim, good, warn, fail lipgloss.Style
	head                         lipgloss.Style
}

// newUI returns a ui. It uses no colour if a flag or NO_COLOR (no-color.org)
// turns it off, or on a dumb terminal.
func newUI(a *app, asJSON, noColor bool) *ui {
	noColor = noColor || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	u := &ui{json: asJSON}
	u.width, _, _ = term.GetSize(int(a.stdout.Fd())) // 0 without a terminal
	u.errWidth, _, _ = term.GetSize(int(a.stderr.Fd()))
	u.screen = term.IsTerminal(int(a.stdout.Fd()))
	u.live = term.IsTerminal(int(a.stderr.Fd()))
	profile := func(coloured bool) termenv.Profile {
		if coloured && !noColor {
			return termenv.ANSI
		}
		return termenv.Ascii
	}
	u.out, u.err = paint(a.answers, profile(u.screen)), paint(a.notices, profile(u.live))
	u.live = u.live && os.Getenv("TERM") != "dumb"
	return u
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

// printf writes to standard output unchanged.
func (u *ui) printf(format string, args ...any) { fmt.Fprintf(u.out.w, format, args...) }

// object writes v as indented JSON to standard output. Control characters are
// escaped.
func (u *ui) object(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(u.out.w, safetext.JSON(b.String()))
	return err
}

// content writes a file's content: unchanged for programs, and with control
// characters escaped on a terminal unless raw is set.
func (u *ui) content(content []byte, raw bool) error {
	text := string(content)
	if u.screen && !raw {
		if text = safetext.Page(text); text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n" // the prompt starts on a new line
		}
		if len(text) > len(content)+1 {
			defer u.note("control characters are shown as escapes; --raw prints them unchanged")
		}
	}
	_, err := io.WriteString(u.out.w, text)
	return err
}

// pairs writes names and aligned values.
func (u *ui) pairs(pairs ...[2]string) {
	wide := 0
	for _, p := range pairs {
		wide = max(wide, len(p[0]))
	}
	for _, p := range pairs {
		u.printf("%s  %s\n", u.out.dim.Render(fmt.Sprintf("%-*s", wide, p[0])), p[1])
	}
}

// paragraph writes text after a name, wrapped and indented.
func (u *ui) paragraph(name, text string) {
	width := pageWidth
	if u.width > 0 {
		width = min(width, u.width)
	}
	const indent = 4
	head := fmt.Sprintf("%-*s", indent, name+" ")
	for i, line := range wrap(head, text, width, indent) {
		if i == 0 && name != "" {
			line = u.out.head.Render(name) + strings.TrimPrefix(line, name)
		}
		u.printf("%s\n", line)
	}
}

// prose writes sentences.
func (u *ui) prose(text string) { u.block("", "", text) }

// indented writes a paragraph below the line that it belongs to.
func (u *ui) indented(text string) { u.block(indentation, indentation, text) }

// hanging writes an indented paragraph after a name, with a hanging indent.
func (u *ui) hanging(name, text string) {
	u.block(indentation+name+"  ", indentation+strings.Repeat(" ", lipgloss.Width(name)+gap), text)
}

const indentation = "    "

// block writes wrapped text: head before the first line, blanks before the
// others.
func (u *ui) block(head, blanks, text string) {
	width := pageWidth
	if u.width > 0 {
		width = min(width, u.width)
	}
	for i, line := range wrap("", text, width-len(blanks), 0) {
		if i == 0 {
			u.printf("%s%s\n", head, line)
		} else {
			u.printf("%s%s\n", blanks, line)
		}
	}
}

// note prints a remark to standard error.
func (u *ui) note(format string, args ...any) {
	if !u.quiet {
		fmt.Fprintf(u.err.w, "stout: %s\n", safetext.Line(fmt.Sprintf(format, args...)))
	}
}

// progress shows the state of something that takes a while. On a terminal it
// rewrites one line; elsewhere it prints one line for each new kind of message.
// An empty text ends it.
func (u *ui) progress(kind, text string) {
	const erase = "\r\x1b[K"
	switch {
	case u.quiet:
	case u.live && text != "":
		line := "stout: " + safetext.Line(text)
		if u.errWidth > len("^C")+1 { // the echo of Ctrl-C would wrap the line
			line = truncate(line, u.errWidth-len("^C")-1)
		}
		fmt.Fprint(u.err.w, erase, line)
	case u.live && u.news != "":
		fmt.Fprint(u.err.w, erase)
	case text != "" && kind != u.news:
		u.note("%s", text)
	}
	u.news = kind
}

// shown reports that progress would print nothing new of this kind.
func (u *ui) shown(kind string) bool { return u.quiet || !u.live && u.news == kind }

// failure prints an error to standard error, followed by its details and
// advice.
func (u *ui) failure(f *failure) {
	if f.message == "" || u.quiet && f.expected {
		return
	}
	fmt.Fprintf(u.err.w, "stout: %s\n", u.err.fail.Render(safetext.Line(f.message)))
	for _, line := range f.details {
		fmt.Fprintf(u.err.w, "  %s\n", safetext.Line(line))
	}
	for _, hint := range f.hints {
		fmt.Fprintf(u.err.w, "%s %s\n", u.err.dim.Render("hint:"), safetext.Line(hint))
	}
}

// safeLine returns a message as one line without control characters.
func safeLine(message string) string { return safetext.Line(message) }

// capital returns a message as a sentence.
func capital(message string) string {
	word, _, _ := strings.Cut(message, " ")
	if word == "" || strings.ContainsFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) { // a name, or a path
		return message
	}
	return strings.ToUpper(message[:1]) + message[1:]
}
