package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/stoutlock/stout/test/cell"
)

const help = `Runs a whole Stout cell on this machine. To be run inside a clone: it builds
what it needs.

Usage:
  local run    a cell of three replicas until Ctrl-C, with data in .stout (make run)
  local demo   a lock that survives the death of the master, as a story (make demo)

Exit codes: 0 done, or stopped in good order; 1 anything else.`

// run runs one of the two programs, or shows the help.
func run(ctx context.Context, args []string) error {
	if slices.ContainsFunc(args, asksForHelp) {
		say(help)
		return nil
	}
	programs := map[string]func(context.Context) error{"run": runCell, "demo": runDemo}
	if len(args) != 1 || programs[args[0]] == nil {
		return errors.New("usage: local run | local demo (local --help tells more)")
	}
	return programs[args[0]](ctx)
}

func asksForHelp(arg string) bool {
	return slices.Contains([]string{"help", "-h", "-help", "--help"}, arg)
}

// build builds Stout's programs into bin and returns the module's directory.
func build(ctx context.Context, packages ...string) (root string, err error) {
	root, err = cell.ModuleRoot()
	if err != nil {
		return "", err
	}
	return root, cell.Build(ctx, root, filepath.Join(root, "bin"), false, packages...)
}

// say prints one line.
func say(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }

// logs is the end of every replica's log, for an error that it may explain.
func logs(c *cell.Cell) string {
	text := ""
	for _, r := range c.Replicas() {
		_, state := r.ExitState()
		text += fmt.Sprintf("\n%s (%s), the end of %s:\n%s\n", r.ID, state, r.LogFile, r.LogTail(15))
	}
	return text
}
