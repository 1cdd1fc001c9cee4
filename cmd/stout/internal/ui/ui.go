// Package ui writes all output of stout: answers, remarks, errors and tables.
// It knows no command and calls no cell.
package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
	"golang.org/x/term"

	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/internal/nonblock"
	"github.com/stoutlock/stout/internal/safetext"
)

// The rules for output:
//
//   - Answers go to standard output. Everything else goes to standard error,
//     prefixed with "stout: ". A message starts without a capital and ends
//     without a full stop.
//   - Colour appears on terminals only, decided per stream, from the terminal's
//     own sixteen colours. It never carries information of its own.
//   - Text from the cell is untrusted and is printed through format.Clean. Messages
//     are cleaned here.
//   - Answers fit into 80 columns, or into a narrower terminal, if their
//     content allows.

// UI prints for a person or, with -o json, for a program.
type UI struct {
	Out, Err Stream
	JSON     bool
	Quiet    bool   // no remarks, and no errors that the exit code implies
	Width    int    // columns of the terminal for answers; 0 without one
	Screen   bool   // answers go to a terminal
	Live     bool   // standard error goes to a terminal, where a line can be rewritten
	ErrWidth int    // columns of that terminal
	measure  func() // reads both widths; nil in tests
	news     string // the kind of the last progress message
}

// Streams are the standard streams of a run. Output goes through answers and
// notices.
type Streams struct {
	Stdin, Stdout, Stderr *os.File
	Answers               *answers
	Notices               *nonblock.Writer
}

// NewStreams returns the streams of a run. end ends it when an answer cannot be
// written.
func NewStreams(stdin, stdout, stderr *os.File, end context.CancelCauseFunc) Streams {
	notices := NewNotices(stderr)
	return Streams{stdin, stdout, stderr, NewAnswers(stdout, notices, end), notices}
}

// PageWidth is the width of text, unless the terminal is narrower.
const PageWidth = 80

// Stream is an output with its styles.
type Stream struct {
	To io.Writer
	format.Styles
}

// NewStream returns output to w in the styles of a profile.
func NewStream(w io.Writer, profile termenv.Profile) Stream {
	return Stream{w, format.NewStyles(w, profile)}
}

// NewUI returns the UI for the options. It uses no colour if a flag or NO_COLOR
// (no-color.org) turns it off, or on a dumb terminal.
func NewUI(s Streams, json, quiet, noColour bool) *UI {
	noColour = noColour || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	u := &UI{JSON: json, Quiet: quiet}
	u.measure = func() {
		u.Width, _, _ = term.GetSize(int(s.Stdout.Fd())) // 0 without a terminal
		u.ErrWidth, _, _ = term.GetSize(int(s.Stderr.Fd()))
	}
	u.UpdateWidth()
	u.Screen = term.IsTerminal(int(s.Stdout.Fd()))
	u.Live = term.IsTerminal(int(s.Stderr.Fd()))
	u.Out = NewStream(s.Answers, format.Profile(u.Screen && !noColour))
	u.Err = NewStream(s.Notices, format.Profile(u.Live && !noColour))
	u.Live = u.Live && os.Getenv("TERM") != "dumb"
	return u
}

// UpdateWidth reads the widths of the terminals, which may have been resized.
func (u *UI) UpdateWidth() {
	if u.measure != nil {
		u.measure()
	}
}

// Printf writes to standard output unchanged.
func (u *UI) Printf(format string, args ...any) { fmt.Fprintf(u.Out.To, format, args...) }

// Object writes v as indented JSON to standard output. Control characters are
// escaped.
func (u *UI) Object(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(u.Out.To, safetext.JSON(b.String()))
	return err
}

// Content writes a file's content: unchanged for programs, and with control
// characters escaped on a terminal unless raw is set.
func (u *UI) Content(content []byte, raw bool) error {
	text := string(content)
	if u.Screen && !raw {
		if text = safetext.Page(text); text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n" // the prompt starts on a new line
		}
		if len(text) > len(content)+1 {
			defer u.Note("control characters are shown as escapes; --raw prints them unchanged")
		}
	}
	_, err := io.WriteString(u.Out.To, text)
	return err
}

// Pairs writes names and aligned values.
func (u *UI) Pairs(pairs ...[2]string) {
	wide := 0
	for _, p := range pairs {
		wide = max(wide, len(p[0]))
	}
	for _, p := range pairs {
		u.Printf("%s  %s\n", u.Out.Faint(fmt.Sprintf("%-*s", wide, p[0])), p[1])
	}
}

// Text writes a paragraph.
func (u *UI) Text(text string) { u.Block("", "", text) }

// Indent writes a paragraph below the line that it belongs to.
func (u *UI) Indent(text string) { u.Block(Indentation, Indentation, text) }

// Hanging writes a paragraph after a name, with a hanging indent.
func (u *UI) Hanging(indent, name, text string) {
	u.Block(indent+name+"  ", strings.Repeat(" ", len(indent)+lipgloss.Width(name)+2), text)
}

// Indentation begins the lines below the line that they belong to.
const Indentation = "    "

// Block writes wrapped text: head before the first line, blanks before the
// others.
func (u *UI) Block(head, blanks, text string) {
	width := PageWidth
	if u.Width > 0 {
		width = min(width, u.Width)
	}
	for i, line := range Wrap(text, width-len(blanks)) {
		if i == 0 {
			u.Printf("%s%s\n", head, line)
		} else {
			u.Printf("%s%s\n", blanks, line)
		}
	}
}

// Note prints a remark to standard error.
func (u *UI) Note(format string, args ...any) {
	if !u.Quiet {
		fmt.Fprintf(u.Err.To, "stout: %s\n", safetext.Line(fmt.Sprintf(format, args...)))
	}
}

// Progress shows the state of something that takes a while. On a terminal it
// rewrites one line; elsewhere it prints one line for each new kind of message.
// An empty text ends it.
func (u *UI) Progress(kind, text string) {
	const erase = "\r\x1b[K"
	switch {
	case u.Quiet:
	case u.Live && text != "":
		u.UpdateWidth()
		line := "stout: " + safetext.Line(text)
		if u.ErrWidth > len("^C")+1 { // the echo of Ctrl-C would wrap the line
			line = format.Truncate(line, u.ErrWidth-len("^C")-1)
		}
		fmt.Fprint(u.Err.To, erase, line)
	case u.Live && u.news != "":
		fmt.Fprint(u.Err.To, erase)
	case text != "" && kind != u.news:
		u.Note("%s", text)
	}
	u.news = kind
}

// Shown reports that progress would print nothing new of this kind.
func (u *UI) Shown(kind string) bool { return u.Quiet || !u.Live && u.news == kind }

// Failure prints an error to standard error, followed by its details and
// advice.
func (u *UI) Failure(f *exit.Failure) {
	if f.Message == "" || u.Quiet && f.Quiet {
		return
	}
	fmt.Fprintf(u.Err.To, "stout: %s\n", u.Err.Fail(safetext.Line(f.Message)))
	for _, line := range f.Details {
		fmt.Fprintf(u.Err.To, "  %s\n", safetext.Line(line))
	}
	for _, hint := range f.Hints {
		fmt.Fprintf(u.Err.To, "%s %s\n", u.Err.Faint("hint:"), safetext.Line(hint))
	}
}

// Title returns a message as a sentence.
func Title(message string) string {
	word, _, _ := strings.Cut(message, " ")
	if word == "" || strings.ContainsFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) { // a name, or a path
		return message
	}
	return strings.ToUpper(message[:1]) + message[1:]
}

// Wrap breaks text into lines of at most width characters. A longer word has a
// line of its own.
func Wrap(text string, width int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		line := &lines[len(lines)-1]
		switch {
		case *line == "":
			*line = word
		case utf8.RuneCountInString(*line)+1+utf8.RuneCountInString(word) <= width:
			*line += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

const (
	// mostNotices limits the writes that wait for standard error.
	mostNotices = 256
	// orderTime is how long an answer waits for earlier notices, so that a
	// terminal shows both in order.
	orderTime = 100 * time.Millisecond
	// LastNotices is how long the end of a run waits for its notices.
	LastNotices = time.Second
)

// NewNotices returns standard error as a writer that never blocks.
func NewNotices(to io.Writer) *nonblock.Writer {
	return nonblock.New(to, mostNotices, func(dropped uint64) []byte {
		return fmt.Appendf(nil, "stout: %s dropped: standard error was blocked\n", format.PluralOf(dropped, "notice", "notices"))
	})
}

// Settle waits for earlier notices before other output is written.
func Settle(notices *nonblock.Writer) { notices.Flush(orderTime) }

// answers is standard output. The first write that fails ends the run, see
// ending. Nothing is written after it, so the output has no gap.
type answers struct {
	to      io.Writer
	notices *nonblock.Writer // earlier ones are written before an answer
	end     context.CancelCauseFunc

	mu     sync.Mutex
	failed error
}

// NewAnswers returns standard output, which is written after earlier notices.
func NewAnswers(to io.Writer, notices *nonblock.Writer, end context.CancelCauseFunc) *answers {
	return &answers{to: to, notices: notices, end: end}
}

func (o *answers) Write(p []byte) (int, error) {
	if err := o.Lost(); err != nil {
		return 0, err
	}
	Settle(o.notices)
	n, err := o.to.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.failed = err
		o.end(err)
	}
	return n, err
}

// Lost returns why an answer was not written, or nil.
func (o *answers) Lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

// Answer prints v as JSON or by text, unless err is set.
func Answer[T any](u *UI, v T, err error, text func(T)) error {
	switch {
	case err != nil:
		return err
	case u.JSON:
		return u.Object(v)
	}
	text(v)
	return nil
}

// Rows returns the rows of a table.
func Rows[T any](items []T, row func(T) []string) [][]string {
	out := make([][]string, len(items))
	for i, item := range items {
		out[i] = row(item)
	}
	return out
}
