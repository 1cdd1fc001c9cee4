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

// This file is all that is printed, through the two of streams.go. The rules are:
//
//   - Answers go to standard output, everything else to standard error, behind
//     "stout: ". No capital at the start of a message, no full stop at its end.
//   - Colour only on a terminal, each stream for itself, from the terminal's
//     own sixteen; never the only sign of something.
//   - What comes from the cell may have been chosen by anybody, and is printed
//     through clean. Messages are cleaned here, whoever made them.
//   - An answer fits into 80 columns as far as what it shows does, and into
//     those of a narrower terminal.

// ui prints for a person or, with -o json, for a program.
type ui struct {
	out, err palette
	json     bool
	quiet    bool   // nothing on the side, and nothing that the exit code says
	width    int    // columns of the terminal that answers go to; 0 if they go to none
	screen   bool   // answers go to a terminal
	live     bool   // standard error goes to a terminal, where a line can change
	errWidth int    // columns of that terminal
	news     string // the kind of what progress told last
}

// pageWidth is how wide text is set, on terminals that are not narrower.
const pageWidth = 80

// palette is one stream and its styles.
type palette struct {
	w                            io.Writer
	plain, dim, good, warn, fail lipgloss.Style
	head                         lipgloss.Style
}

// newUI decides about colour: never where that was turned off by flag or by
// NO_COLOR (no-color.org), and not on a dumb terminal.
func newUI(a *app, asJSON, noColor bool) *ui {
	noColor = noColor || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	u := &ui{json: asJSON}
	u.width, _, _ = term.GetSize(int(a.stdout.Fd())) // 0 where it is no terminal
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

// printf writes to standard output as is.
func (u *ui) printf(format string, args ...any) { fmt.Fprintf(u.out.w, format, args...) }

// object writes v as indented JSON to standard output, with escapes for what a
// terminal would obey rather than show.
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

// content writes a file's content: as it is for a program, and safe to look at
// for a person, unless that is to be raw.
func (u *ui) content(content []byte, raw bool) error {
	text := string(content)
	if u.screen && !raw {
		if text = safetext.Page(text); text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n" // the prompt is to be on a line of its own
		}
		if len(text) > len(content)+1 {
			defer u.note("what a terminal would obey is shown as an escape; --raw prints it as it is")
		}
	}
	_, err := io.WriteString(u.out.w, text)
	return err
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

// paragraph writes text behind a name, wrapped and indented.
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

// indented writes a paragraph that belongs to the line above it.
func (u *ui) indented(text string) { u.block(indentation, indentation, text) }

// hanging is indented behind a name, whose width the lines that follow keep free.
func (u *ui) hanging(name, text string) {
	u.block(indentation+name+"  ", indentation+strings.Repeat(" ", lipgloss.Width(name)+gap), text)
}

const indentation = "    "

// block writes text in lines that fit, behind a head and then behind blanks.
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

// progress shows how something that takes a while is going: on a terminal in
// one line that changes, elsewhere in a line for each new kind of message. No
// text ends it.
func (u *ui) progress(kind, text string) {
	const erase = "\r\x1b[K"
	switch {
	case u.quiet:
	case u.live && text != "":
		line := "stout: " + safetext.Line(text)
		if u.errWidth > len("^C")+1 { // which would else wrap the line, to stay there
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

// told says that progress would show nothing new of this kind.
func (u *ui) told(kind string) bool { return u.quiet || !u.live && u.news == kind }

// failure prints to standard error what went wrong, and below it the details
// and what to do.
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

// safeLine is a message as one safe line.
func safeLine(message string) string { return safetext.Line(message) }

// capital is a message as a sentence of its own.
func capital(message string) string {
	word, _, _ := strings.Cut(message, " ")
	if word == "" || strings.ContainsFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) { // a name, or a path
		return message
	}
	return strings.ToUpper(message[:1]) + message[1:]
}
