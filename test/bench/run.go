package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

// Exit codes.
const (
	exitOK    = 0
	exitFault = 1
	exitUsage = 2
)

// run executes the program and returns its exit code. After a fault it still
// shows the results up to then.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\nSee bench --help.\n", err)
		return exitUsage
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("the --timeout of %v has passed", s.timeout))
	defer cancel()
	b := &bench{settings: s, progress: newProgress(stderr), report: &load.Report{
		When:    time.Now().UTC(),
		Machine: load.Machine{CPUs: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()},
	}}
	err = errors.Join(b.runAll(ctx), b.show(stdout))
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitFault
	}
	return exitOK
}

// bench is one invocation. A copy of it, with another cell or other settings,
// adds to the same report.
type bench struct {
	*settings
	cell     *target.Cell
	progress *progress
	report   *load.Report
}

func (b *bench) runAll(ctx context.Context) (err error) {
	b.progress.note("waiting for the cell")
	b.cell, err = target.Open(ctx, target.Options{URLs: b.servers, Binary: b.stoutd, Args: b.stoutdArgs, Dir: b.dir, Secure: b.secure, Access: b.access, Rules: b.rules, Doors: slices.Contains(b.via, target.Door)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.cell.Close()) }()
	if pid := b.cell.MasterPID(ctx); pid != 0 {
		b.progress.note("the master has process id %d", pid)
	}
	for _, name := range b.works {
		if err := findWork(name).run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (b *bench) add(row load.Row) { b.report.Rows = append(b.report.Rows, row) }

// show writes the table, and the JSON file if requested.
func (b *bench) show(stdout io.Writer) error {
	if len(b.report.Rows) == 0 {
		return nil
	}
	err := b.report.WriteTable(stdout)
	if b.json == "" {
		return err
	}
	f, failed := os.Create(b.json)
	if failed != nil {
		return errors.Join(err, failed)
	}
	return errors.Join(err, b.report.WriteJSON(f), f.Close())
}
