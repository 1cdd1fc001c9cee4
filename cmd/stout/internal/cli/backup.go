package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/lockapi"
)

const fileHelp = `Exit codes: 0 it is whole, 1 it is damaged, cut off or no backup, or can't be
read, 2 wrong usage.`

func (a *app) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "backup",
		Short:      "Save a backup of the cell, verify one, show what is in it",
		SuggestFor: []string{"backups", "snapshot", "dump", "export"},
		Args:       cobra.NoArgs,
		// Files are looked at without a cell.
		PersistentPreRunE: a.prepareAlone,
		RunE: func(*cobra.Command, []string) error {
			return usagef("say what to do: stout backup save, verify or show")
		},
	}
	var force bool
	save := &cobra.Command{
		Use:   "save FILE",
		Short: "Save a backup of the whole cell",
		Long: `Saves the whole state of the cell in FILE, with every change that was
acknowledged before: locks, sessions, files, and rules, groups and tokens of
access. The cell goes on beside it. FILE gets its name when all is on the disk,
and is its owner's alone to read: it has the contents of all files.

stoutd restore founds a cell from it. --timeout bounds the wait for the first
byte.

Exit codes: 0 saved, 1 the cell refused, FILE is there already, or it can't be
written, 2 wrong usage, 3 the cell has no master, 4 no replica can be reached.`,
		Example: `  stout backup save cell-$(date +%F).backup
  stout backup verify cell-2026-02-03.backup`,
		Args:       cobra.ExactArgs(1),
		SuggestFor: []string{"create", "make", "write", "to"},

		PersistentPreRunE: a.prepare,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.saveBackup(cmd.Context(), args[0], force) },
	}
	save.Flags().BoolVarP(&force, "force", "f", false, "replace FILE where it is there")
	verify := &cobra.Command{
		Use:   "verify FILE",
		Short: "Say whether a backup is whole",
		Long: `Says whether FILE is a whole backup, each bit as it was written. No cell is
asked.

` + fileHelp,
		Args:       cobra.ExactArgs(1),
		SuggestFor: []string{"check", "test"},
		RunE:       func(_ *cobra.Command, args []string) error { return a.verifyBackup(args[0]) },
	}
	show := &cobra.Command{
		Use:   "show FILE",
		Short: "Show what is in a backup",
		Long: `Shows which cell FILE is a backup of, as of when, and how much is in it. It
verifies it, too. No cell is asked.

` + fileHelp,
		Args:       cobra.ExactArgs(1),
		SuggestFor: []string{"info", "inspect", "list", "ls"},
		RunE:       func(_ *cobra.Command, args []string) error { return a.showBackup(args[0]) },
	}
	cmd.AddCommand(save, verify, show)
	return cmd
}

func (a *app) saveBackup(ctx context.Context, name string, force bool) error {
	if name == "-" {
		return usagef("FILE is -, and a backup is not written to standard output: cut off there it could not be told from a whole one").
			hint("name a file; ./- is one of that name")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(a.opts.timeout, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	var h lockapi.BackupHeader
	var asked error
	err := backup.Save(name, force, func(w io.Writer) error {
		h, asked = a.client.Backup(ctx, &begun{Writer: w, do: func() { timer.Stop() }})
		return asked
	})
	switch {
	case asked != nil:
		return asked
	case errors.Is(err, fs.ErrExist):
		return (&failure{code: exitFailed, message: clean(name) + " is there already, and was left as it is"}).hint("--force replaces it")
	case err != nil:
		return &failure{code: exitFailed, message: fmt.Sprintf("no backup was saved: %v", err)}
	case a.ui.json:
		return a.ui.object(h)
	}
	if !a.ui.quiet {
		a.ui.printf("%s  %s\n", clean(name), summary(h))
	}
	return nil
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

func readBackup(name string) (lockapi.BackupHeader, error) {
	h, err := backup.VerifyFile(name)
	if err != nil {
		return h, &failure{code: exitFailed, message: err.Error()}
	}
	return h, nil
}

func (a *app) verifyBackup(name string) error {
	h, err := readBackup(name)
	switch {
	case err != nil:
		return err
	case a.ui.json:
		return a.ui.object(h)
	case !a.ui.quiet:
		a.ui.printf("%s  whole  %s\n", clean(name), summary(h))
	}
	return nil
}

func (a *app) showBackup(name string) error {
	h, err := readBackup(name)
	if err != nil {
		return err
	}
	if a.ui.json {
		return a.ui.object(h)
	}
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
		[2]string{"index", strconv.FormatUint(h.Index, 10)}, [2]string{"revision", strconv.FormatUint(h.Revision, 10)}, [2]string{"token", strconv.FormatUint(h.Token, 10)},
		[2]string{"files", fmt.Sprintf("%d, %s", c.Files, byteSize(c.ContentBytes))},
		[2]string{"locks", fmt.Sprintf("%d, with %s and %s", c.Locks, plural(c.Holds, "holder"), plural(c.Waiters, "waiter"))},
		[2]string{"sessions", strconv.Itoa(c.Sessions)},
		[2]string{"access", fmt.Sprintf("%s: %s, %s, %s", access, plural(c.Rules, "rule"), plural(c.Groups, "group"), plural(c.Tokens, "token"))},
		[2]string{"format", strconv.Itoa(h.Format)},
	)
	return nil
}
