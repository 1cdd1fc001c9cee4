package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// progress shows the progress to a person: on a terminal in one line that is
// overwritten, elsewhere only lines worth logging. It is not safe for
// concurrent use.
type progress struct {
	w        io.Writer
	terminal bool
}

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

// clearLine moves to the begin of the line and clears it.
const clearLine = "\r\x1b[K"

// step shows a temporary state, on a terminal only.
func (p *progress) step(format string, args ...any) {
	if p.terminal {
		fmt.Fprintf(p.w, clearLine+format, args...)
	}
}

// note writes a permanent line.
func (p *progress) note(format string, args ...any) {
	if p.terminal {
		fmt.Fprint(p.w, clearLine)
	}
	fmt.Fprintf(p.w, format+"\n", args...)
}
