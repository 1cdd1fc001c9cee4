package cli

import (
	"bufio"
	"strings"

	"golang.org/x/term"
)

// someoneToAsk refuses what is not to be done unasked where nobody is there; why
// says why it is not.
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
	answer, _ := bufio.NewReader(a.stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &failure{code: exitFailed, message: "nothing was changed"}
}

// warn says what will be, where there is somebody who can then say no.
func (a *app) warn(yes bool, why, what, question string) error {
	if yes {
		return nil
	}
	if err := a.someoneToAsk(why); err != nil {
		return err
	}
	u := *a.ui
	u.out, u.width = a.ui.err, a.ui.errWidth
	u.paragraph("", what)
	u.printf("\n")
	return a.ask(why, question)
}
