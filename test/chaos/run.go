package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"
)

// Exit codes.
const (
	exitOK    = 0
	exitFault = 1
	exitUsage = 2
)

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "chaos: %v\nSee chaos --help.\n", err)
		return exitUsage
	}
	if s.recheck != "" {
		if err := recheck(s, stdout); err != nil {
			fmt.Fprintf(stderr, "chaos: %v\n", err)
			return exitFault
		}
		return exitOK
	}
	code := exitOK
	for _, size := range s.sizes {
		t, err := newTrial(s, size, stderr)
		if err == nil {
			err = t.run(ctx)
			t.summary(stdout)
			err = errors.Join(err, t.close())
		}
		if err != nil {
			fmt.Fprintf(stderr, "chaos: %v\n", err)
			code = exitFault
		}
		if ctx.Err() != nil {
			fmt.Fprintln(stderr, "chaos: interrupted before the end")
			return exitFault
		}
	}
	return code
}
