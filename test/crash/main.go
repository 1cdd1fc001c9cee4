// Command crash loses the power of a simulated disk under the real stores of a
// replica, at any point and with any of what was not synced on it (package
// trial). `make crash` runs it for a minute; ARGS="--duration 1h --seed 7" for
// longer.
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
