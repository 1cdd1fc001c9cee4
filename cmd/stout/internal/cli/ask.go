package cli

import (
	"bufio"
	"strings"

	"golang.org/x/term"
)

// someoneToAsk refuses what is not to be done unasked if standard input is no terminal.
func (a *app) someoneToAsk(why string) error {
	if !term.IsTerminal(int(a.stdin.Fd())) {
		return usagef("%s, and there is nobody here to ask", why).hint("--yes does it unasked")
	}
	return nil
}

// ask returns nil for a yes.
func (a *app) ask(why, question string) error {
	if err := a.someoneToAsk(why); err != nil {
		return err
	}
	u := *a.ui
	u.out = a.ui.err // a question is no answer
	u.printf("%s [y/N] ", question)
	text, _ := bufio.NewReader(a.stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "y", "yes":
		return nil
	}
	return &failure{code: exitFailed, message: "nothing was changed"}
}

// confirm says what will be, as pairs and a text, and asks.
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

// warn is confirm unless the answer is yes already.
func (a *app) warn(yes bool, why, what, question string) error {
	if yes {
		return nil
	}
	return a.confirm(why, what, question)
}
