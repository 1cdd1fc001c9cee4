package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/stoutlock/stout/internal/nonblock"
)

// isTerminal reports whether w is a terminal that may be coloured.
func isTerminal(w io.Writer) bool {
	if log, ok := w.(*nonblock.Writer); ok {
		w = log.Under()
	}
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(f.Fd()))
}
