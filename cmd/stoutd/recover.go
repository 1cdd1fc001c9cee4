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
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/replica"
	"github.com/stoutlock/stout/replica/peerconn"
)

const recoverHelp = `Use this if a cell has permanently lost its majority and there is no better
backup. It founds a cell of one replica from the data directory of this replica,
which must be stopped. The new cell is in the empty directory --into; then start
stoutd with that as its data directory. The old directory remains, and is never
opened again. If a run is interrupted, the next one continues it.

Changes that this replica has not received are lost, even if they were
acknowledged. Use the replica with the longest log: each attempt shows its
length before it asks for confirmation. Changes that this replica has received
may take effect even if they were never committed.

Everything else is as for stoutd restore: the cell is new, sessions are gone,
locks that were held are delayed, tokens and revisions continue above every
number of the old cell (by the wall clock or --above), and the first master
waits one minute, until any lease has ended.

The other replicas of the old cell must never run again. If anything accepts
connections at the address of one of them, the command refuses: it may be that
replica, hanging, or with an expired certificate. If the replica is permanently
stopped and another program has its port, give its id by --gone.`

func newRecoverCommand(flags *config.Flags) *cobra.Command {
	var r recovery
	var above uint64
	cmd := &cobra.Command{
		Use:     "recover --data-dir DIR --into DIR --id ID --replica ID=HOST:PORT,URL",
		Short:   "Found a cell from one replica, after the loss of a majority",
		Long:    recoverHelp,
		Example: "  stoutd recover --config /etc/stout/r1.yaml --into /var/lib/stoutd-new",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.into == "" {
				return errors.New("--into is missing: give an empty directory for the new cell")
			}
			if r.now = time.Now(); cmd.Flags().Changed("above") {
				r.above = &above
			}
			r.in, r.out = cmd.InOrStdin(), cmd.OutOrStdout()
			return r.run(cmd.Context(), flags)
		},
	}
	cmd.Flags().StringVar(&r.into, "into", "", "an empty `directory` for the new cell")
	cmd.Flags().StringSliceVar(&r.gone, "gone", nil, "the replica with this `id` is permanently stopped, although a program accepts connections at its address")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "do not ask")
	cmd.Flags().Uint64Var(&above, "above", 0, "continue fencing tokens and revisions above this `number`, without use of the clock")
	return cmd
}

// recovery founds a cell from the data directory of a stopped replica.
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
		return exitError{code: exitConfig, err: errors.New("dev has no directory to recover: it is removed at the end")}
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
		_, err := fmt.Fprintf(r.out, "an earlier run, which was interrupted, founded cell %s with id %s in %s\n%s", c.Cell, done.CellID, into, startThere(into))
		return err
	}
	if err != nil {
		return setup.ExplainDataDir(c, c.DataDir, err)
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	floor, err := r.floor(old.Time, old.Saved)
	if err != nil {
		return err
	}
	var links peerconn.Security
	if raft != nil {
		links = certs.Mutual{Source: raft}
	}
	alone := func() error {
		err := old.StillRuns(ctx, c.Replicas, r.gone, links)
		if err != nil {
			err = fmt.Errorf("%w; nothing was changed", err)
		}
		return err
	}
	if err := alone(); err != nil {
		return err
	}
	if err := r.confirm(ctx, c, old); err != nil {
		return err
	}
	// The answer may have come late.
	if err := alone(); err != nil {
		return err
	}
	options.DataDir = into
	id, err := old.Move(options, floor)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.out, `founded cell %s with id %s in %s, from %s at revision %d
tokens and revisions continue above %d
%s`, c.Cell, id, into, c.DataDir, old.Revision(), max(floor, old.LastToken()+1), startThere(into))
	return err
}

func startThere(dir string) string {
	return fmt.Sprintf("start stoutd with --data-dir %s: it serves after a minute, when every lease of the old cell has ended\n", dir)
}

// apart returns the path of the new directory. It must be neither in the old
// directory, which is never opened again, nor around it.
func (r *recovery) apart(old string) (into string, err error) {
	if into, err = filepath.Abs(r.into); err != nil {
		return "", err
	}
	if old, err = filepath.Abs(old); err != nil {
		return "", err
	}
	if setup.Within(into, old) || setup.Within(old, into) {
		return "", fmt.Errorf("--into %s and the old data directory %s: one contains the other; give an empty directory elsewhere; nothing was changed", into, old)
	}
	return into, nil
}

func (r *recovery) confirm(ctx context.Context, c *config.Config, old *replica.Stopped) error {
	fmt.Fprintf(r.out, `replica %s of cell %s (id %s) has the log up to entry %d, revision %d, of %s
- later changes are lost, even if they were acknowledged; the last entries may never have been committed
- the cell is new: sessions and ephemeral files are gone, locks that were held are delayed
- the other replicas of the old cell must never run again
`, c.ID, c.Cell, old.CellID, old.Last, old.Revision(), old.Time.Format(time.RFC3339))
	if r.yes {
		return nil
	}
	fmt.Fprint(r.out, "Continue? Type yes: ")
	line, _ := wait.Get(ctx, func() (string, error) { return bufio.NewReader(r.in).ReadString('\n') })
	if ctx.Err() != nil {
		return fmt.Errorf("%w; nothing was changed", context.Cause(ctx))
	}
	if strings.TrimSpace(line) != "yes" {
		return errors.New("not confirmed: nothing was changed (--yes confirms in scripts)")
	}
	return nil
}
