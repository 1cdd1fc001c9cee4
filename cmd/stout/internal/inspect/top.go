package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/members"
	"github.com/stoutlock/stout/cmd/stout/internal/top"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/internal/safetext"
)

func topCommand(a *app.App) app.Command {
	return app.Command{
		Use: "top", Short: "Watch the cell, its locks, sessions and files live", SuggestFor: "ui tui dashboard monitor live", Unlimited: true,
		Long: `Shows the cell live on a terminal, until q: the master, its lease and the
replicas; locks with their holders and queues; sessions with the time left of
their leases; files; events; members and cycles of waits. The key ? lists the
keys.
Nothing in it changes the cell.

stout top follows the cell's events. It also asks for the cell each second (each
0.3 s while the lease is shown), for the members every 3 s, and for visible list
entries: up to 8 locks or 1000 sessions each second. Locks and directories are
listed once, up to 20000.

Without a terminal, use stout status --watch, which prints the cell each second.`,
		Exits: "0 quit with q, 1 something failed, 2 wrong usage, 128+n if signal n ended it: 130 for Ctrl-C",
		Example: `  stout top
  stout top -s 10.0.0.1:7101,10.0.0.2:7101`,
		Run: func(ctx context.Context, _ []string) error {
			switch {
			case a.UI.JSON:
				return exit.Usagef("stout top has no JSON output").Hint("stout -o json status --watch prints the cell repeatedly, one line each time")
			case !a.UI.Screen:
				return exit.Usagef("stout top needs a terminal, but standard output is not a terminal").Hint("stout status --watch prints the cell repeatedly, anywhere")
			case !term.IsTerminal(int(a.Stdin.Fd())):
				return exit.Usagef("stout top needs a terminal, but standard input is not a terminal").Hint("stout status --watch prints the cell repeatedly and reads no input")
			case os.Getenv("TERM") == "dumb":
				return exit.Usagef("stout top needs a terminal that can move its cursor, but TERM is dumb").Hint("stout status --watch prints the cell repeatedly, anywhere")
			}
			colour := !a.Options.NoColour && os.Getenv("NO_COLOR") == ""
			err := top.Run(ctx, top.Options{In: a.Stdin, Out: a.Stdout, Source: &topSource{a: a, colour: colour}, Client: a.Client, Colour: colour})
			if errors.Is(err, top.ErrInterrupted) {
				return &exit.Failure{Code: exit.Signal + 2, Interrupted: true}
			}
			if s, ok := errors.AsType[*top.Signalled](err); ok {
				return &exit.Failure{Code: exit.Signal + int(s.Signal)}
			}
			return err
		},
	}
}

// topSource is the cell for stout top, in the words of stout status, explain
// and session show.
type topSource struct {
	a      *app.App
	colour bool
}

// Look implements top.Source.
func (s *topSource) Look(ctx context.Context, width int) (top.Look, error) {
	seen, found, wrong, err := s.a.Collector().Look(ctx, s.a.Options.Timeout)
	if err != nil {
		return top.Look{}, err
	}
	out := top.Look{}
	if wrong != nil {
		out.Findings = append(append([]string{safetext.Line(wrong.Message)}, wrong.Details...), wrong.Hints...)
	}
	for _, f := range found {
		out.Findings = append(out.Findings, format.Clean(f.ID)+" "+f.What)
		if f.NoMaster {
			out.Unreached = append(out.Unreached, f.ID)
		}
		if f.Command != "" {
			out.Findings = append(out.Findings, mending(seen.Cell)+f.Command)
		}
	}
	out.Cell = seen.Cell
	out.Replicas, err = s.output(width, func(a *app.App) error { (&showStatus{App: a}).showReplicas(seen.Cell, found); return nil })
	return out, err
}

// Members implements top.Source. Cycles are optional: older releases do not
// report them.
func (s *topSource) Members(ctx context.Context, width int, stale bool) (out top.Members, err error) {
	a := *s.a
	a.Options.Stale = stale
	list, err := a.Admin.Members(ctx, a.ReadOptions()...)
	if err != nil {
		return out, err
	}
	out.Cycles, _ = a.Admin.Deadlocks(ctx, a.ReadOptions()...)
	out.Text, err = s.output(width, func(a *app.App) error {
		out.Tolerates = members.Tolerates(a.UI, list)
		members.Print(a, list)
		return nil
	})
	return out, err
}

// topHistory is how many earlier holders of an open lock are shown.
const topHistory = 50

// Read implements top.Source.
func (s *topSource) Read(ctx context.Context, of top.Subject, width int, stale bool) (string, error) {
	return s.output(width, func(a *app.App) error {
		a.Options.Stale = stale
		switch of.Kind {
		case top.Lock:
			return (&explainer{a}).explainPath(ctx, of.Name, topHistory, false)
		case top.Session:
			s, err := a.Admin.ReadSession(ctx, of.Name, a.ReadOptions()...)
			if errors.Is(err, client.ErrSessionNotFound) {
				err = exit.Errorf(exit.Failed, "this session no longer exists: it was closed or has expired")
			}
			return ui.Answer(a.UI, s, err, (&sessions{a}).printSession)
		}
		f, err := a.Client.Get(ctx, of.Name, a.ReadOptions()...)
		if errors.Is(err, client.ErrNotFound) {
			err = exit.Errorf(exit.Failed, "this file no longer exists")
		}
		return ui.Answer(a.UI, f, err, func(f client.File) { printFile(a, f) })
	})
}

// printFile prints a file's metadata and its content, with control characters
// escaped.
func printFile(a *app.App, f client.File) {
	pairs := [][2]string{
		{"size", format.Bytes(int64(f.Size))}, {"generation", fmt.Sprintf("%d, revision %d, created as %d", f.Generation, f.Revision, f.Instance)},
		{"written", fmt.Sprintf("%s, %s ago, by %s", clock(f.ModifiedAt), format.Since(f.ModifiedAt), format.Clean(f.Principal))},
		{"created", clock(f.CreatedAt)}, {"sha256", format.Clean(f.SHA256)},
	}
	if f.Session != "" {
		pairs = append(pairs, [2]string{"ends with", "session " + format.Clean(f.Session)})
	}
	a.UI.Pairs(pairs...)
	a.UI.Printf("\n%s\n", a.UI.Out.Bold("Content"))
	for line := range strings.Lines(safetext.Page(string(f.Content))) {
		a.UI.Printf("  %s\n", strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    "))
	}
}

// output returns what a command would print on a terminal of a width.
func (s *topSource) output(width int, command func(*app.App) error) (string, error) {
	var text bytes.Buffer
	to := ui.NewStream(&text, format.Profile(s.colour))
	a := *s.a
	a.UI = &ui.UI{Out: to, Err: to, Width: width}
	err := command(&a)
	return text.String(), err
}

// Describe implements top.Source.
func (s *topSource) Describe(err error) *top.Trouble {
	f := s.a.Explain(err)
	t := &top.Trouble{Text: ui.Title(safetext.Line(f.Message)) + ".", Denied: ask.IsDenial(err)}
	for _, line := range f.Details {
		t.More = append(t.More, safetext.Line(line))
	}
	for _, hint := range f.Hints {
		t.More = append(t.More, fmt.Sprintf("hint: %s", safetext.Line(hint)))
	}
	return t
}
