package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/stoutlock/stout/test/cell"
)

const help = `Runs a whole Stout cell on this machine. To be run inside a clone: it builds
what it needs, into bin/cell.

Usage:
  local run [--data DIR] [--port N] [--secure] [--stoutd-arg FLAG]...
               a cell of three replicas until Ctrl-C (make run ARGS="...")
  local demo   a lock that survives the death of the master, as a story (make demo)

  --data DIR   where data and logs are; default .stout in the clone
  --port N     of the first API; the others follow, and those of the replicas from
               N + 100. Default 7101, or the next free ones. A cell keeps its ports.
  --secure     with TLS everywhere, access on and an audit log (make run SECURE=1);
               data, certificates and the root's token are in .stout-secure
  --stoutd-arg FLAG
               a flag for each replica, as --stoutd-arg=--heartbeat-timeout=2s; may
               be repeated

Exit codes: 0 done, or stopped in good order; 1 anything else.`

// run runs one of the two programs, or shows the help.
func run(ctx context.Context, args []string) error {
	if slices.ContainsFunc(args, asksForHelp) {
		say(help)
		return nil
	}
	usage := errors.New("usage: local run [--data DIR] [--port N] [--secure] [--stoutd-arg FLAG]... | local demo (local --help tells more)")
	if len(args) == 0 {
		return usage
	}
	var o runOptions
	flags := flag.NewFlagSet("local", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	if args[0] == "run" {
		flags.StringVar(&o.data, "data", "", "")
		flags.IntVar(&o.port, "port", 0, "")
		flags.BoolVar(&o.secure, "secure", false, "")
		flags.Func("stoutd-arg", "", func(arg string) error {
			o.args = append(o.args, arg)
			return nil
		})
	}
	if err := flags.Parse(args[1:]); err != nil || flags.NArg() > 0 {
		return errors.Join(err, usage)
	}
	switch args[0] {
	case "run":
		return runCell(ctx, o)
	case "demo":
		return runDemo(ctx)
	}
	return usage
}

func asksForHelp(arg string) bool {
	return slices.Contains([]string{"help", "-h", "-help", "--help"}, arg)
}

// build builds Stout's programs from the sources of the clone at root, into a
// directory of their own: what `make build` made is left alone.
func build(ctx context.Context, packages ...string) (root, bin string, err error) {
	if root, err = cell.ModuleRoot(); err != nil {
		return "", "", err
	}
	bin = binaries(root)
	return root, bin, cell.Build(ctx, root, bin, false, packages...)
}

// binaries is where build puts them.
func binaries(root string) string { return filepath.Join(root, "bin", "cell") }

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
