// Command sim runs the simulator: whole cells in one process, in virtual time,
// from seeds (see package simcell). `make sim` runs a fixed and a fresh set of
// seeds; `make sim SEED=7 STEPS=300` runs one; `make mutants` inserts
// deliberate faults and shows which the simulator finds.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal restores the default action, so that a second one ends
	// the program at once.
	context.AfterFunc(ctx, stop)
	if err := command(os.Stdout, os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}
