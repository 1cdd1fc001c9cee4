// Command stoutlab runs the classical algorithms of election and mutual
// exclusion on a simulated network, counts their messages, draws their runs,
// and shows what breaks them. See docs/lab.md.
package main

import (
	"os"
	"runtime/debug"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/cli"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	if build, ok := debug.ReadBuildInfo(); ok && version == "" {
		version = build.Main.Version
	}
	os.Exit(cli.Run(version, os.Args[1:], os.Stdout, os.Stderr))
}
