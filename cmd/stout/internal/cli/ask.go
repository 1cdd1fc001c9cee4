package cli

import (
	"bufio"
	"strings"

	"golang.org/x/term"
)

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
	u.paragraph("", what)
	u.printf("\n")
	return a.ask(why, question)
}

// warn is confirm, skipped if yes is set.
func (a *app) warn(yes bool, why, what, question string) error {
	if yes {
		return nil
	}
	return a.confirm(why, what, question)
}
