package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/cmd/stoutd/internal/setup"
	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica"
	"github.com/stoutlock/stout/replica/membership"
)

const restoreHelp = `Founds a cell of one replica from a backup, in the empty data directory of this
one. Start stoutd then, with the same settings; further replicas join it.

It is a new cell, with an id of its own: clients of the old one refuse it until
they are told to accept it, and replicas of the two never mix. Files, rules,
groups and tokens of access are as in the backup. No session is. A lock that was
held is in its lock-delay, 60s where none was asked for. Ephemeral files are
gone.

Fencing tokens and revisions go on above all that the old cell has given, and
above those of an earlier restore: from the wall clock, which must not be behind
the backup's time. Where it can't be trusted, --above names the highest that may
have been given.

The first master waits as long as any lease of the old cell may last, one
minute, before it serves. The old cell must not go on beside it.

Where it refuses, nothing was written.`

func newRestoreCommand(flags *config.Flags) *cobra.Command {
	var from string
	var above uint64
	cmd := &cobra.Command{
		Use:     "restore --from FILE --data-dir DIR --id ID --replica ID=HOST:PORT,URL",
		Short:   "Found a cell from a backup",
		Long:    restoreHelp,
		Example: "  stoutd restore --from cell.backup --data-dir /var/lib/stoutd --id r1 \\\n    --replica r1=10.0.0.1:7201,http://10.0.0.1:7101",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" {
				return errors.New("which backup? --from is missing")
			}
			r := restoration{from: from, now: time.Now()}
			if cmd.Flags().Changed("above") {
				r.above = &above
			}
			made, err := r.run(cmd.Context(), flags)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), made)
			return err
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "the backup, a `file`")
	cmd.Flags().Uint64Var(&above, "above", 0, "fencing tokens and revisions go on above this `number`, whatever the clock says")
	return cmd
}

// restoration is a cell that is to be founded from a backup.
type restoration struct {
	from  string
	above *uint64 // nil: the clock says
	now   time.Time
}

// run founds the cell, and says what it has done. The error is an exitError.
func (r *restoration) run(ctx context.Context, flags *config.Flags) (string, error) {
	header, saved, err := readBackup(r.from)
	if err != nil {
		return "", exitError{code: exitStart, err: err}
	}
	c, err := config.LoadAs(ctx, flags, os.Environ(), header.Cell)
	if err != nil {
		return "", exitError{code: exitConfig, err: err}
	}
	if c.Dev {
		return "", exitError{code: exitConfig, err: errors.New("dev makes a directory that is removed at the end; name a data-dir")}
	}
	if c.Cell != header.Cell {
		return "", exitError{code: exitConfig, err: fmt.Errorf("cell %q (%s): the backup is of cell %q", c.Cell, c.Source("cell"), header.Cell)}
	}
	floor, err := r.floor(header)
	if err == nil {
		err = noneAnswers(ctx, c.Replicas)
	}
	if err != nil {
		return "", exitError{code: exitStart, err: err}
	}
	id, err := saved.Found(foundOptions(c), floor)
	if err != nil {
		return "", exitError{code: exitStart, err: setup.ExplainDataDir(c, c.DataDir, err)}
	}
	return fmt.Sprintf(`founded cell %s with id %s in %s, from the backup of %s at revision %d
tokens and revisions go on above %d
start stoutd with the same settings: it serves after a minute, when every lease of the old cell is over
`, c.Cell, id, c.DataDir, header.Time.Format(time.RFC3339), header.Revision, max(floor, saved.LastToken()+1)), nil
}

// noneAnswers makes sure that no replica runs at the addresses of the cell to be founded.
// Whatever takes connections there is taken for one: it may hang, or have another secret.
func noneAnswers(ctx context.Context, all []membership.Member) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, m := range all {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", m.RaftAddr)
		if err == nil {
			conn.Close()
			return fmt.Errorf("replica %s: its address %s takes connections: a replica of the old cell may run there, and two cells would give the same locks; stop it, for good, or name another address; nothing was written", m.ID, m.RaftAddr)
		}
	}
	return nil
}

// foundOptions are the settings of a replica as founding a cell of one takes them.
func foundOptions(c *config.Config) replica.Options {
	return replica.Options{
		Cell: c.Cell, ID: c.ID, DataDir: c.DataDir, Version: buildinfo.Version(),
		Members:     []membership.Member{c.Self()},
		MasterLease: c.MasterLease, WAL: c.LogStore == config.StoreWAL,
	}
}

// readBackup reads a whole backup. Nothing is made of one that is not.
func readBackup(name string) (h lockapi.BackupHeader, saved replica.Saved, err error) {
	f, err := os.Open(name)
	if err != nil {
		return h, saved, fmt.Errorf("--from: %w", err)
	}
	defer f.Close()
	r, err := backup.NewReader(f)
	if err == nil {
		h = r.Header
		saved, err = readState(r)
	}
	if err == nil && (saved.Index() != h.Index || saved.Revision() != h.Revision || saved.LastToken() != h.Token) {
		err = errors.New("its header tells of another state than it has")
	}
	if err != nil {
		return h, saved, fmt.Errorf("--from %s: %w; nothing was written", name, err)
	}
	return h, saved, nil
}

// readState reads the state in a backup. One that can't be read is most often damaged,
// which only the sum at the end of the backup tells.
func readState(r *backup.Reader) (replica.Saved, error) {
	saved, wrong := replica.ReadSaved(r)
	if wrong == nil {
		return saved, nil
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return saved, err
	}
	return saved, fmt.Errorf("its SHA-256 is right, and its state is none that this release can go on from (%w): take another backup, or the release that wrote this one", wrong)
}

// floor is where tokens and revisions begin, unless those of the backup are above.
func (r *restoration) floor(h lockapi.BackupHeader) (uint64, error) {
	if r.above != nil {
		if *r.above >= lockapi.MaxToken {
			return 0, fmt.Errorf("--above %d: tokens are below 2^53, and one above it has to be left; nothing was written", *r.above)
		}
		return *r.above + 1, nil
	}
	if r.now.Before(h.Time) {
		return 0, fmt.Errorf("this machine's clock says %s, and the backup was made at %s: by such a clock tokens might be given twice; set the clock, or give --above and the highest token and revision that may have been given; nothing was written",
			r.now.UTC().Format(time.RFC3339), h.Time.Format(time.RFC3339))
	}
	return replica.RestoreFloor(r.now), nil
}
