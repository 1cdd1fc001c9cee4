package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stoutlock/stout/test/cell"
)

// run runs one of the two programs.
func run(ctx context.Context, args []string) error {
	programs := map[string]func(context.Context) error{"run": runCell, "demo": runDemo}
	if len(args) != 1 || programs[args[0]] == nil {
		return fmt.Errorf("usage: local run | local demo")
	}
	return programs[args[0]](ctx)
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
