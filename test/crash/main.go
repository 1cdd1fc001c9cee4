// Command crash cuts the power of a simulated disk under the real stores of a
// replica. The cut can fall at any point, and any part of the unsynced data may
// be on the disk (package trial). `make crash` runs it for a minute;
// ARGS="--duration 1h --seed 7" runs it longer.
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
	defer stop()
	if err := command(os.Stdout).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
}
