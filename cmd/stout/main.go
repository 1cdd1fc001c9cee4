// Command stout is the operator's and the shell's tool for a Stout cell: it
// shows the cell, its locks and its sessions, and runs commands under a lock.
package main

import (
	"context"
	"os"

	"github.com/stoutlock/stout/cmd/stout/internal/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
