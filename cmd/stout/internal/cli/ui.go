package cli

import (
	"bufio"
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

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/internal/nonblock"
	"github.com/stoutlock/stout/internal/safetext"
)

// All output goes through this file. The rules:
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
	w io.Writer
	format.Styles
}

func paint(w io.Writer, profile termenv.Profile) palette {
	return palette{w, format.NewStyles(w, profile)}
}

// newUI returns the ui for the options. It uses no colour if a flag or NO_COLOR
// (no-color.org) turns it off, or on a dumb terminal.
func newUI(a *app) *ui {
	noColor := a.opts.noColor || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	u := &ui{json: a.opts.output == "json", quiet: a.opts.quiet}
	u.width, _, _ = term.GetSize(int(a.stdout.Fd())) // 0 without a terminal
	u.errWidth, _, _ = term.GetSize(int(a.stderr.Fd()))
	u.screen = term.IsTerminal(int(a.stdout.Fd()))
	u.live = term.IsTerminal(int(a.stderr.Fd()))
	u.out = paint(a.answers, format.Profile(u.screen && !noColor))
	u.err = paint(a.notices, format.Profile(u.live && !noColor))
	u.live = u.live && os.Getenv("TERM") != "dumb"
	return u
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
		u.printf("%s  %s\n", u.out.Faint(fmt.Sprintf("%-*s", wide, p[0])), p[1])
	}
}

// prose writes a paragraph.
func (u *ui) prose(text string) { u.block("", "", text) }

// indented writes a paragraph below the line that it belongs to.
func (u *ui) indented(text string) { u.block(indentation, indentation, text) }

// hanging writes a paragraph after a name, with a hanging indent.
func (u *ui) hanging(indent, name, text string) {
	u.block(indent+name+"  ", strings.Repeat(" ", len(indent)+lipgloss.Width(name)+2), text)
}

const indentation = "    "

// block writes wrapped text: head before the first line, blanks before the
// others.
func (u *ui) block(head, blanks, text string) {
	width := pageWidth
	if u.width > 0 {
		width = min(width, u.width)
	}
	for i, line := range wrap(text, width-len(blanks)) {
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
			line = format.Truncate(line, u.errWidth-len("^C")-1)
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
	fmt.Fprintf(u.err.w, "stout: %s\n", u.err.Fail(safetext.Line(f.message)))
	for _, line := range f.details {
		fmt.Fprintf(u.err.w, "  %s\n", safetext.Line(line))
	}
	for _, hint := range f.hints {
		fmt.Fprintf(u.err.w, "%s %s\n", u.err.Faint("hint:"), safetext.Line(hint))
	}
}

// capital returns a message as a sentence.
func capital(message string) string {
	word, _, _ := strings.Cut(message, " ")
	if word == "" || strings.ContainsFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) { // a name, or a path
		return message
	}
	return strings.ToUpper(message[:1]) + message[1:]
}

// wrap breaks text into lines of at most width characters. A longer word has a
// line of its own.
func wrap(text string, width int) []string {
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

// someoneToAsk returns an error if standard input is not a terminal, so that no
// question can be answered.
func (a *app) someoneToAsk(why string) error {
	if !term.IsTerminal(int(a.stdin.Fd())) {
		return usagef("%s, and standard input is not a terminal to confirm it", why).hint("--yes skips the question")
	}
	return nil
}

// ask prints a question and returns nil for a yes.
func (a *app) ask(why, question string) error {
	if err := a.someoneToAsk(why); err != nil {
		return err
	}
	u := *a.ui
	u.out = a.ui.err // questions go to standard error
	u.printf("%s [y/N] ", question)
	text, _ := bufio.NewReader(a.stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "y", "yes":
		return nil
	}
	return &failure{code: exitFailed, message: "nothing was changed"}
}

// confirm prints the consequences, as pairs and as text, and asks.
func (a *app) confirm(why, what, question string, pairs ...[2]string) error {
	if err := a.someoneToAsk(why); err != nil {
		return err
	}
	u := *a.ui
	u.out, u.width = a.ui.err, a.ui.errWidth
	if u.pairs(pairs...); len(pairs) > 0 {
		u.printf("\n")
	}
	u.indented(what)
	u.printf("\n")
	return a.ask(why, question)
}

// warn is confirm, skipped if --yes is given.
func (a *app) warn(why, what, question string) error {
	if a.opts.yes {
		return nil
	}
	return a.confirm(why, what, question)
}

const (
	// mostNotices limits the writes that wait for standard error.
	mostNotices = 256
	// orderTime is how long an answer waits for earlier notices, so that a
	// terminal shows both in order.
	orderTime = 100 * time.Millisecond
	// lastNotices is how long the end of a run waits for its notices.
	lastNotices = time.Second
)

// newNotices returns standard error as a writer that never blocks.
func newNotices(to io.Writer) *nonblock.Writer {
	return nonblock.New(to, mostNotices, func(dropped uint64) []byte {
		return fmt.Appendf(nil, "stout: %s dropped: standard error was blocked\n", format.PluralOf(dropped, "notice", "notices"))
	})
}

// settle waits for earlier notices before other output is written.
func settle(notices *nonblock.Writer) { notices.Flush(orderTime) }

// answers is standard output. The first write that fails ends the run, see
// ending. Nothing is written after it, so the output has no gap.
type answers struct {
	to     io.Writer
	before func() // called before each write
	end    context.CancelCauseFunc

	mu     sync.Mutex
	failed error
}

func (o *answers) Write(p []byte) (int, error) {
	if err := o.lost(); err != nil {
		return 0, err
	}
	o.before()
	n, err := o.to.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.failed = err
		o.end(err)
	}
	return n, err
}

// lost returns why an answer was not written, or nil.
func (o *answers) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}
