package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) backup() runner {
	return group{
		use: "backup", short: "Save a backup of the cell, verify one, show what is in it", like: "backups snapshot dump export",
		sub: []runner{
			&saveBackup{app: a},
			backupFile(a, command{use: "verify FILE", short: "Say whether a backup is whole", like: "check test",
				long: `Says whether FILE is a whole backup, each bit as it was written. No cell is
asked.`}, func(name string, h lockapi.BackupHeader) {
				if !a.ui.quiet {
					a.ui.printf("%s  whole  %s\n", clean(name), summary(h))
				}
			}),
			backupFile(a, command{use: "show FILE", short: "Show what is in a backup", like: "info inspect list ls",
				long: `Shows which cell FILE is a backup of, as of when, and how much is in it. It
verifies it, too. No cell is asked.`}, func(_ string, h lockapi.BackupHeader) { a.showBackup(h) }),
		},
	}
}

// backupFile is a command that looks at a file without a cell.
func backupFile(a *app, row command, show func(name string, h lockapi.BackupHeader)) runner {
	var name string
	row.exits, row.alone = "0 it is whole, 1 it is damaged, cut off or no backup, or can't be read, 2 wrong usage", true
	return viewer(a, row, func(_ context.Context, args []string) (lockapi.BackupHeader, error) {
		name = args[0]
		h, err := backup.VerifyFile(name)
		if err != nil {
			err = &failure{code: exitFailed, message: err.Error()}
		}
		return h, err
	}, func(h lockapi.BackupHeader) { show(name, h) })
}

type saveBackup struct {
	*app
	force bool
}

func (c *saveBackup) command() command {
	return command{
		use: "save FILE", short: "Save a backup of the whole cell", like: "create make write to", endless: true,
		long: `Saves the whole state of the cell in FILE, with every change that was
acknowledged before: locks, sessions, files, and rules, groups and tokens of
access. The cell goes on beside it. FILE gets its name when all is on the disk,
and is its owner's alone to read: it has the contents of all files.

stoutd restore founds a cell from it. --timeout bounds the wait for the first
byte.`,
		exits: readExits("saved", "the cell refused, FILE is there already, or it can't be written"),
		example: `  stout backup save cell-$(date +%F).backup
  stout backup verify cell-2026-02-03.backup`,
		flags: func(f *pflag.FlagSet) { f.BoolVarP(&c.force, "force", "f", false, "replace FILE where it is there") },
	}
}

func (c *saveBackup) run(ctx context.Context, args []string) error {
	name := args[0]
	if name == "-" {
		return usagef("FILE is -, and a backup is not written to standard output: cut off there it could not be told from a whole one").
			hint("name a file; ./- is one of that name")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(c.opts.timeout, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	var h lockapi.BackupHeader
	var asked error
	err := backup.Save(name, c.force, func(w io.Writer) error {
		h, asked = c.client.Backup(ctx, &begun{Writer: w, do: func() { timer.Stop() }})
		return asked
	})
	switch {
	case asked != nil:
		return asked
	case errors.Is(err, fs.ErrExist):
		return (&failure{code: exitFailed, message: clean(name) + " is there already, and was left as it is"}).hint("--force replaces it")
	case err != nil:
		return &failure{code: exitFailed, message: fmt.Sprintf("no backup was saved: %v", err)}
	}
	return answer(c.ui, h, nil, func(lockapi.BackupHeader) {
		if !c.ui.quiet {
			c.ui.printf("%s  %s\n", clean(name), summary(h))
		}
	})
}

// begun is a writer that tells of its first byte.
type begun struct {
	io.Writer
	do   func()
	once sync.Once
}

func (b *begun) Write(p []byte) (int, error) {
	b.once.Do(b.do)
	return b.Writer.Write(p)
}

// summary says in a line what a backup is of.
func summary(h lockapi.BackupHeader) string {
	return fmt.Sprintf("cell %s  revision %d  %s  %s", clean(h.Cell), h.Revision, plural(h.Contents.Locks, "lock"), plural(h.Contents.Files, "file"))
}

func (a *app) showBackup(h lockapi.BackupHeader) {
	asOf := "the cell, as of then"
	if h.Stale {
		asOf = a.ui.out.warn.Render("STALE") + ": this replica's own state, not that of the master"
	}
	access := "off"
	if h.Contents.Access {
		access = "on"
	}
	c := h.Contents
	a.ui.pairs(
		[2]string{"cell", clean(h.Cell)}, [2]string{"cell id", clean(h.CellID)},
		[2]string{"time", h.Time.UTC().Format(time.RFC3339)}, [2]string{"by", clean(h.Replica) + ", release " + clean(h.Release)},
		[2]string{"of", asOf},
		[2]string{"index", fmt.Sprint(h.Index)}, [2]string{"revision", fmt.Sprint(h.Revision)}, [2]string{"token", fmt.Sprint(h.Token)},
		[2]string{"files", fmt.Sprintf("%d, %s", c.Files, byteSize(c.ContentBytes))},
		[2]string{"locks", fmt.Sprintf("%d, with %s and %s", c.Locks, plural(c.Holds, "holder"), plural(c.Waiters, "waiter"))},
		[2]string{"sessions", fmt.Sprint(c.Sessions)},
		[2]string{"access", fmt.Sprintf("%s: %s, %s, %s", access, plural(c.Rules, "rule"), plural(c.Groups, "group"), plural(c.Tokens, "token"))},
		[2]string{"format", fmt.Sprint(h.Format)},
	)
}
