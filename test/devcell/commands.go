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

	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/test/cell"
)

const help = `Runs a whole Stout cell on this machine. Run it inside a clone of Stout: it builds
the programs that it needs into bin/cell.

Usage:
  devcell run [--data DIR] [--port N] [--secure] [--stoutd-arg FLAG]...
                 run a cell of three replicas until Ctrl-C (make run ARGS="...")
  devcell demo   show step by step that a lock survives the death of the master
                 (make demo)

  --data DIR   directory of data and logs; default: .stout in the clone
  --port N     port of the first replica's API. The other two replicas use N + 1
               and N + 2; their Raft ports start at N + 100. Default: 7101, or the
               next free range. A cell keeps its ports.
  --secure     use TLS everywhere, access control and an audit log (make run
               SECURE=1); data, certificates and the root token are in
               .stout-secure
  --stoutd-arg FLAG
               pass a flag to each replica, for example
               --stoutd-arg=--heartbeat-timeout=2s; may be repeated

Exit codes: 0 finished, or stopped cleanly; 1 anything else.`

// run executes one of the two commands, or prints the help.
func run(ctx context.Context, args []string) error {
	if slices.ContainsFunc(args, asksForHelp) {
		say(help)
		return nil
	}
	usage := errors.New("usage: devcell run [--data DIR] [--port N] [--secure] [--stoutd-arg FLAG]... | devcell demo (devcell --help explains the flags)")
	if len(args) == 0 {
		return usage
	}
	var o runOptions
	flags := flag.NewFlagSet("devcell", flag.ContinueOnError)
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

// build builds Stout's programs from the sources of the clone at root. They go
// into a directory of their own, so that the output of `make build` stays as it
// is.
func build(ctx context.Context, packages ...string) (root, bin string, err error) {
	if root, err = cell.ModuleRoot(); err != nil {
		return "", "", err
	}
	bin = binaries(root)
	flags := "-ldflags=-X github.com/stoutlock/stout/internal/buildinfo.version=" + buildinfo.Version()
	return root, bin, cell.Build(ctx, root, bin, false, append([]string{flags}, packages...)...)
}

func binaries(root string) string { return filepath.Join(root, "bin", "cell") }

func say(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }

// logs returns the end of each replica's log, to explain an error.
func logs(c *cell.Cell) string {
	text := ""
	for _, r := range c.Replicas() {
		_, state := r.ExitState()
		text += fmt.Sprintf("\n%s (%s), the last lines of %s:\n%s\n", r.ID, state, r.LogFile, r.LogTail(15))
	}
	return text
}
