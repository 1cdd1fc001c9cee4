package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/muesli/termenv"
	"golang.org/x/term"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/top"
)

type showTop struct{ *app }

func (c *showTop) command() command {
	return command{
		use: "top", short: "Look at the cell, its locks, sessions and files, live", like: "ui tui dashboard monitor live", endless: true,
		long: `Shows the cell at a terminal, live, until q: the master, its lease as it runs
out and is renewed, the replicas, and how many more failures are borne; locks
with who holds them and who waits; sessions with what is left of their leases;
files; events as they come; members, and sessions that wait for each other. The
key ? shows the keys. Nothing in it changes anything.

It follows the cell's events. Beside that it asks for the cell each second (each
0.3 s where the lease is shown), for the members each 3 s, and of a list for
what is in sight: up to 8 locks each second, or 1000 sessions. Locks and
directories are listed once, up to 20000.

Where output is no terminal, stout status --watch shows the cell each second.`,
		exits: "0 it was quit by q, 1 something failed, 2 wrong usage, 128+n if signal n ended it: 130 for Ctrl-C",
		example: `  stout top
  stout top -s 10.0.0.1:7101,10.0.0.2:7101`,
	}
}

func (c *showTop) run(ctx context.Context, _ []string) error {
	a := c.app
	switch {
	case a.ui.json:
		return usagef("stout top has no JSON").hint("stout -o json status --watch prints the cell again and again, a line each time")
	case !a.ui.screen:
		return usagef("stout top needs a terminal, and standard output is none").hint("stout status --watch shows the cell again and again, anywhere")
	case !term.IsTerminal(int(a.stdin.Fd())):
		return usagef("stout top needs a terminal, and standard input is none").hint("stout status --watch shows the cell again and again, and reads nothing")
	case os.Getenv("TERM") == "dumb":
		return usagef("stout top needs a terminal that can move its cursor, and TERM is dumb").hint("stout status --watch shows the cell again and again, anywhere")
	}
	colour := !a.opts.noColor && os.Getenv("NO_COLOR") == ""
	err := top.Run(ctx, top.Options{In: a.stdin, Out: a.stdout, Source: &topSource{a: a, colour: colour}, Client: a.client, Colour: colour})
	if errors.Is(err, top.ErrInterrupted) {
		return &failure{code: exitSignal + 2, interrupted: true}
	}
	if s, ok := errors.AsType[*top.Signalled](err); ok {
		return &failure{code: exitSignal + int(s.Signal)}
	}
	return err
}

// topSource is the cell as stout top asks for it and tells of it: as stout
// status, explain and session show do.
type topSource struct {
	a      *app
	colour bool
}

// Look implements top.Source.
func (s *topSource) Look(ctx context.Context) (top.Look, error) {
	cells := s.a.askCells(ctx)
	seen, err := s.a.survey(ctx, min(s.a.opts.timeout, remaining(ctx)))
	if err != nil {
		return top.Look{}, err
	}
	out := top.Look{}
	found := s.a.examine(ctx, &seen)
	several := <-cells
	if !ask.InOffice(seen.Cell) {
		f := s.a.noMaster(seen.Cell)
		out.Findings = append([]string{safeLine(f.message)}, f.hints...)
	}
	if several != nil {
		out.Findings = append(append([]string{several.message}, several.details...), out.Findings...)
	}
	for _, f := range found {
		out.Findings = append(out.Findings, clean(f.ID)+" "+f.What)
		if f.deaf {
			out.Deaf = append(out.Deaf, f.ID)
		}
		if f.Command != "" {
			out.Findings = append(out.Findings, mending(seen.Cell)+f.Command)
		}
	}
	out.Cell = seen.Cell
	return out, nil
}

// Explain implements top.Source.
func (s *topSource) Explain(ctx context.Context, path string, width int, stale bool) (string, error) {
	return s.told(width, func(a *app) error { return a.explainPath(ctx, path, 0, readOptions(stale)) })
}

// Session implements top.Source.
func (s *topSource) Session(ctx context.Context, id string, width int, stale bool) (string, error) {
	return s.told(width, func(a *app) error { return a.showSession(ctx, id, readOptions(stale)) })
}

// told is what a command would print on a terminal of a width.
func (s *topSource) told(width int, command func(*app) error) (string, error) {
	profile := termenv.Ascii
	if s.colour {
		profile = termenv.ANSI
	}
	var text bytes.Buffer
	a := *s.a
	a.ui = &ui{out: paint(&text, profile), err: paint(io.Discard, termenv.Ascii), width: width, quiet: true}
	err := command(&a)
	return text.String(), err
}

// Say implements top.Source.
func (s *topSource) Say(err error) *top.Trouble {
	f := s.a.explain(err)
	if errors.Is(err, client.ErrSessionNotFound) {
		return &top.Trouble{Text: "There is no such session any more: it was closed, or has expired."}
	}
	t := &top.Trouble{Text: capital(safeLine(f.message)) + ".", Denied: ask.IsDenial(err)}
	for _, line := range f.details {
		t.More = append(t.More, safeLine(line))
	}
	for _, hint := range f.hints {
		t.More = append(t.More, fmt.Sprintf("hint: %s", safeLine(hint)))
	}
	return t
}
