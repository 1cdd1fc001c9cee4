// Command stoutd is one replica of a Stout cell.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	raiseTimerSlack() // before a signal could be lost by it
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal restore the default action, so that a second one ends
	// the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
