package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// progress tells a person what is going on: on a terminal in one line that is
// written over, elsewhere only what is worth a line in a log. It is not safe
// for concurrent use.
type progress struct {
	w        io.Writer
	terminal bool
}

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

// clearLine goes to the line's begin and clears it.
const clearLine = "\r\x1b[K"

// step shows a passing state, on a terminal only.
func (p *progress) step(format string, args ...any) {
	if p.terminal {
		fmt.Fprintf(p.w, clearLine+format, args...)
	}
}

// note writes a line that stays.
func (p *progress) note(format string, args ...any) {
	if p.terminal {
		fmt.Fprint(p.w, clearLine)
	}
	fmt.Fprintf(p.w, format+"\n", args...)
}
