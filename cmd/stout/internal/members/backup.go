package members

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/lockapi"
)

func backupCommand(a *app.App) app.Command {
	return app.Command{
		Use: "backup", Short: "Save, verify and show backups of the cell", SuggestFor: "backups snapshot dump export",
		Sub: []app.Command{
			saveBackup(a),
			backupFile(a, app.Command{Use: "verify FILE", Short: "Check that a backup is complete and undamaged", SuggestFor: "check test",
				Long: `Checks that FILE is a complete, undamaged backup. No cell is called.`}, func(name string, h lockapi.BackupHeader) {
				if !a.UI.Quiet {
					a.UI.Printf("%s  complete  %s\n", format.Clean(name), summary(h))
				}
			}),
			backupFile(a, app.Command{Use: "show FILE", Short: "Show the contents of a backup", SuggestFor: "info inspect list ls",
				Long: `Shows the cell and the time of the backup FILE, and how much it contains. It
also verifies the backup. No cell is called.`}, func(_ string, h lockapi.BackupHeader) { showBackup(a, h) }),
		},
	}
}

// backupFile is a command that reads a backup file without a cell.
func backupFile(a *app.App, row app.Command, show func(name string, h lockapi.BackupHeader)) app.Command {
	var name string
	row.Exits, row.Local = "0 complete and undamaged, 1 damaged, cut off, not a backup or unreadable, 2 wrong usage", true
	return app.Viewer(a, row, func(_ context.Context, args []string) (lockapi.BackupHeader, error) {
		name = args[0]
		h, err := backup.VerifyFile(name)
		if err != nil {
			err = exit.Errorf(exit.Failed, "%v", err)
		}
		return h, err
	}, func(h lockapi.BackupHeader) { show(name, h) })
}

func saveBackup(a *app.App) app.Command {
	var force bool
	return app.Command{
		Use: "save FILE", Short: "Save a backup of the whole cell", SuggestFor: "create make write to", Unlimited: true,
		Long: `Saves the whole state of the cell in FILE: locks, sessions, files, and the
rules, groups and tokens of access control, including every change acknowledged
before. The cell continues to serve. FILE appears when it is complete on disk;
only its owner can read it, because it contains all files.

stoutd restore founds a cell from it. --timeout limits the wait for the first
byte.`,
		Exits: exit.ReadExits("saved", "the cell refused, FILE exists, or it cannot be written"),
		Example: `  stout backup save cell-$(date +%F).backup
  stout backup verify cell-2026-02-03.backup`,
		Flags: func(f *pflag.FlagSet) { f.BoolVarP(&force, "force", "f", false, "replace an existing FILE") },
		Run: func(ctx context.Context, args []string) error {
			name := args[0]
			if name == "-" {
				return exit.Usagef("FILE is -, but a backup is not written to standard output: a reader could not notice that it was cut off").
					Hint("name a file; ./- is a file named -")
			}
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			timer := time.AfterFunc(a.Options.Timeout, func() { cancel(context.DeadlineExceeded) })
			defer timer.Stop()
			var h lockapi.BackupHeader
			var asked error
			signals, stop := child.Signals()
			defer stop()
			_, err := app.CancelOnSignal(ctx, signals, nil, func(ctx context.Context) (any, error) { // an interrupted one leaves no file
				return nil, backup.Save(name, force, func(w io.Writer) error {
					h, asked = a.Admin.Backup(ctx, begun{w, timer})
					return asked
				})
			})
			interrupted, is := errors.AsType[*exit.Failure](err)
			switch {
			case is:
				return interrupted
			case asked != nil:
				return asked
			case errors.Is(err, fs.ErrExist):
				return exit.Errorf(exit.Failed, "%s exists and was not changed", format.Clean(name)).Hint("--force replaces it")
			case err != nil:
				return exit.Errorf(exit.Failed, "no backup was saved: %v", err)
			}
			return ui.Answer(a.UI, h, nil, func(lockapi.BackupHeader) {
				if !a.UI.Quiet {
					a.UI.Printf("%s  %s\n", format.Clean(name), summary(h))
				}
			})
		},
	}
}

// begun is a writer that stops a timer when it is used.
type begun struct {
	io.Writer
	timer *time.Timer
}

func (b begun) Write(p []byte) (int, error) {
	b.timer.Stop()
	return b.Writer.Write(p)
}

func summary(h lockapi.BackupHeader) string {
	return fmt.Sprintf("cell %s  revision %d  %s  %s", format.Clean(h.Cell), h.Revision, format.Plural(h.Contents.Locks, "lock"), format.Plural(h.Contents.Files, "file"))
}

func showBackup(a *app.App, h lockapi.BackupHeader) {
	asOf := "the cell at that time"
	if h.Stale {
		asOf = a.UI.Out.Warn("STALE") + ": this replica's own state, not the master's"
	}
	access := "off"
	if h.Contents.Access {
		access = "on"
	}
	c := h.Contents
	a.UI.Pairs(
		[2]string{"cell", format.Clean(h.Cell)}, [2]string{"cell id", format.Clean(h.CellID)},
		[2]string{"time", h.Time.UTC().Format(time.RFC3339)}, [2]string{"by", format.Clean(h.Replica) + ", release " + format.Clean(h.Release)},
		[2]string{"of", asOf},
		[2]string{"index", fmt.Sprint(h.Index)}, [2]string{"revision", fmt.Sprint(h.Revision)}, [2]string{"token", fmt.Sprint(h.Token)},
		[2]string{"files", fmt.Sprintf("%d, %s", c.Files, format.Bytes(c.ContentBytes))},
		[2]string{"locks", fmt.Sprintf("%d, with %s and %s", c.Locks, format.Plural(c.Holds, "holder"), format.Plural(c.Waiters, "waiter"))},
		[2]string{"sessions", fmt.Sprint(c.Sessions)},
		[2]string{"access", fmt.Sprintf("%s: %s, %s, %s", access, format.Plural(c.Rules, "rule"), format.Plural(c.Groups, "group"), format.Plural(c.Tokens, "token"))},
		[2]string{"format", fmt.Sprint(h.Format)},
	)
}
