// Command stoutlab runs the classical algorithms of election and mutual
// exclusion on a simulated network, counts their messages, draws what happened,
// and shows what breaks them. See docs/lab.md.
package main

import (
	"os"

	"github.com/stoutlock/stout/internal/lab/cli"
)

func main() {
	os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr))
}
