// Command devcell runs a whole Stout cell on this machine: `devcell run` is
// behind `make run`, `devcell demo` behind `make demo`. It is run inside a
// clone of Stout and builds the programs that it needs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// Restore the default action after the first signal, so that a second one
	// ends the program at once.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "\n%v\n", err)
		os.Exit(1)
	}
}
