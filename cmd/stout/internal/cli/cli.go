// Package cli is the command line of stout: it joins the commands of the other
// packages. Nothing else belongs here.
package cli

import (
	"context"
	"os"
	"slices"

	"github.com/stoutlock/stout/cmd/stout/internal/access"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/files"
	"github.com/stoutlock/stout/cmd/stout/internal/hold"
	"github.com/stoutlock/stout/cmd/stout/internal/inspect"
	"github.com/stoutlock/stout/cmd/stout/internal/members"
	"github.com/stoutlock/stout/internal/buildinfo"
)

// Run executes the command line args (without the program's name) and returns
// the exit code. It writes to the given files only.
func Run(ctx context.Context, args []string, stdin, stdout, stderr *os.File) int {
	return app.Main(ctx, args, stdin, stdout, stderr, commands)
}

func commands(a *app.App) []app.Command {
	return slices.Concat(inspect.Commands(a), hold.Commands(a), files.Commands(a), members.Commands(a), access.Commands(a), []app.Command{version(a)})
}

func version(a *app.App) app.Command {
	return app.Viewer(a, app.Command{Use: "version", Short: "Print the version of this program"},
		func(context.Context, []string) (buildinfo.Info, error) { return buildinfo.Get(), nil },
		func(v buildinfo.Info) { a.UI.Printf("stout %s\n", v) })
}
