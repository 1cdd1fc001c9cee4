package app

import (
	"bufio"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/stoutlock/stout/cmd/stout/internal/exit"
)

// MayAsk returns an error if standard input is not a terminal, so that no
// question can be answered.
func (a *App) MayAsk(why string) error {
	if !term.IsTerminal(int(a.Stdin.Fd())) {
		return exit.Usagef("%s, and standard input is not a terminal to confirm it", why).Hint("--yes skips the question")
	}
	return nil
}

// Ask prints a question and returns nil for a yes.
func (a *App) Ask(why, question string) error {
	if err := a.MayAsk(why); err != nil {
		return err
	}
	u := *a.UI
	u.Out = a.UI.Err // questions go to standard error
	u.Printf("%s [y/N] ", question)
	text, _ := bufio.NewReader(a.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "y", "yes":
		return nil
	}
	return exit.Errorf(exit.Failed, "nothing was changed")
}

// AskAfter prints the consequences, as pairs and as text, and asks.
func (a *App) AskAfter(why, what, question string, pairs ...[2]string) error {
	if err := a.MayAsk(why); err != nil {
		return err
	}
	u := *a.UI
	u.Out, u.Width = a.UI.Err, a.UI.ErrWidth
	if u.Pairs(pairs...); len(pairs) > 0 {
		u.Printf("\n")
	}
	u.Indent(what)
	u.Printf("\n")
	return a.Ask(why, question)
}

// Warn is AskAfter, skipped if --yes is given.
func (a *App) Warn(why, what, question string) error {
	if a.Options.Yes {
		return nil
	}
	return a.AskAfter(why, what, question)
}

// ReadInput reads a file, or standard input for "-" or no name. It reads one byte
// more than most, so that a longer content shows.
func (a *App) ReadInput(name string, most int64) ([]byte, error) {
	in := a.Stdin
	if name != "" && name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, exit.Usagef("%v", err)
		}
		defer file.Close()
		in = file
	}
	content, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		err = exit.Errorf(exit.Failed, "%v", err)
	}
	return content, err
}
