package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/cmd/stoutd/internal/setup"
	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica"
	"github.com/stoutlock/stout/replica/peerconn"
)

const recoverHelp = `For a cell whose majority is lost for good, with no backup that is better: founds
a cell of one replica from what this one, which is stopped, has in its data
directory. The new cell is in the empty directory --into; start stoutd with that
as its data directory. The old directory is kept, and never opened again. A run that
was interrupted is gone on with by the next one.

What this replica had not heard of is lost, also where it was acknowledged. Take
the replica whose log goes furthest: each attempt says how far, before it asks.
What it had heard of may come true although it never was committed.

Everything else is as for stoutd restore: it is a new cell, no session lives on,
locks that were held are delayed, tokens and revisions go on above all that the
old cell has given by the wall clock or --above, and the first master waits one
minute, as long as any lease may last.

The other replicas of the old cell must never run again. While anything takes
connections at the address of one of them, this is refused: it may be the
replica, which hangs, or whose certificate has ended. Where that replica is
stopped for good, and another program has its port, say so by --gone.`

func newRecoverCommand(flags *config.Flags) *cobra.Command {
	var r recovery
	var above uint64
	cmd := &cobra.Command{
		Use:     "recover --data-dir DIR --into DIR --id ID --replica ID=HOST:PORT,URL",
		Short:   "Found a cell from what one replica has, where a majority is lost",
		Long:    recoverHelp,
		Example: "  stoutd recover --config /etc/stout/r1.yaml --into /var/lib/stoutd-new",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.into == "" {
				return errors.New("where to? --into is missing: an empty directory for the new cell")
			}
			if r.now = time.Now(); cmd.Flags().Changed("above") {
				r.above = &above
			}
			r.in, r.out = cmd.InOrStdin(), cmd.OutOrStdout()
			return r.run(cmd.Context(), flags)
		},
	}
	cmd.Flags().StringVar(&r.into, "into", "", "an empty `directory` for the new cell")
	cmd.Flags().StringSliceVar(&r.gone, "gone", nil, "the replica with this `id` is stopped for good, although something takes connections at its address")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "do not ask")
	cmd.Flags().Uint64Var(&above, "above", 0, "fencing tokens and revisions go on above this `number`, whatever the clock says")
	return cmd
}

// recovery is a cell that is to be founded from what a stopped replica has.
type recovery struct {
	restoration
	into string
	gone []string
	yes  bool
	in   io.Reader
	out  io.Writer
}

func (r *recovery) run(ctx context.Context, flags *config.Flags) error {
	c, err := config.Load(ctx, flags, os.Environ())
	if err != nil {
		return exitError{code: exitConfig, err: err}
	}
	if c.Dev {
		return exitError{code: exitConfig, err: errors.New("dev keeps no directory that could be recovered")}
	}
	if err := r.recover(ctx, c); err != nil {
		return exitError{code: exitStart, err: err}
	}
	return nil
}

func (r *recovery) recover(ctx context.Context, c *config.Config) (err error) {
	options := foundOptions(c)
	into, err := r.apart(c.DataDir)
	if err != nil {
		return err
	}
	raft, err := setup.RaftCertificates(c)
	if err != nil {
		return err
	}
	old, err := replica.OpenStopped(options)
	if done, is := errors.AsType[*replica.AlreadyRecovered](err); is && done.Into == into {
		_, err := fmt.Fprintf(r.out, "an earlier run, which did not come to its end, has founded cell %s with id %s in %s\n%s", c.Cell, done.CellID, into, startThere(into))
		return err
	}
	if err != nil {
		return setup.ExplainDataDir(c, c.DataDir, err)
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	floor, err := r.floor(lockapi.BackupHeader{Time: old.Time})
	if err != nil {
		return err
	}
	var links peerconn.Security
	if raft != nil {
		links = certs.Mutual{Source: raft}
	}
	if err := old.StillRuns(ctx, c.Replicas, r.gone, links); err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	if err := r.confirm(c, old); err != nil {
		return err
	}
	options.DataDir = into
	id, err := old.Move(options, floor)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.out, `founded cell %s with id %s in %s, from %s at revision %d
tokens and revisions go on above %d
%s`, c.Cell, id, into, c.DataDir, old.Revision(), max(floor, old.LastToken()+1), startThere(into))
	return err
}

// startThere is what remains to be done.
func startThere(dir string) string {
	return fmt.Sprintf("start stoutd with --data-dir %s: it serves after a minute, when every lease of the old cell is over\n", dir)
}

// apart is the new directory, which is neither in the old one, that is never opened
// again, nor around it.
func (r *recovery) apart(old string) (into string, err error) {
	if into, err = filepath.Abs(r.into); err != nil {
		return "", err
	}
	if old, err = filepath.Abs(old); err != nil {
		return "", err
	}
	for _, pair := range [2][2]string{{into, old}, {old, into}} {
		if rel, err := filepath.Rel(pair[1], pair[0]); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			return "", fmt.Errorf("--into %s and the old data directory %s are one in the other: give an empty directory beside it; nothing was changed", into, old)
		}
	}
	return into, nil
}

// confirm says what it costs, and asks.
func (r *recovery) confirm(c *config.Config, old *replica.Stopped) error {
	fmt.Fprintf(r.out, `replica %s of cell %s (id %s) has the log up to entry %d, revision %d, of %s
- what was changed after that is lost, also where it was acknowledged; what is at its end may never have been committed
- it will be a new cell: no session lives on, locks that were held are delayed, ephemeral files are gone
- the other replicas of the old cell must never run again
`, c.ID, c.Cell, old.CellID, old.Last, old.Revision(), old.Time.Format(time.RFC3339))
	if r.yes {
		return nil
	}
	fmt.Fprint(r.out, "Go on? Type yes: ")
	line, _ := bufio.NewReader(r.in).ReadString('\n')
	if strings.TrimSpace(line) != "yes" {
		return errors.New("nobody said yes: nothing was done (--yes is for scripts)")
	}
	return nil
}
