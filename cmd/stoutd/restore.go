package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/cmd/stoutd/internal/setup"
	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica"
	"github.com/stoutlock/stout/replica/membership"
)

const restoreHelp = `Founds a cell of one replica from a backup, in this replica's empty data
directory. Then start stoutd with the same settings and the name of the cell.
More replicas can join.

The new cell has its own id. Clients of the old cell refuse it until they are
configured to accept it, and replicas of the two cells never mix. Files, access
rules, groups and access tokens are as in the backup. All sessions are gone, and
their ephemeral files. A lock that was held is in its lock-delay, 60s if its
holder requested none.

Fencing tokens and revisions continue above every number of the old cell, and
of an earlier restore. They begin at a number made from the wall clock, which
must not be behind the backup's time. If the clock cannot be trusted, give the
highest number that may be in use by --above.

The first master waits one minute before it serves, until any lease of the old
cell has ended. The old cell must not run beside the new one.

If it refuses, it has written nothing. After a write that failed, or an
interruption, empty the data directory and run it again.`

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
				return errors.New("--from is missing: give the file of the backup")
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
	cmd.Flags().StringVar(&from, "from", "", "`file` of the backup")
	cmd.Flags().Uint64Var(&above, "above", 0, "continue fencing tokens and revisions above this `number`, without use of the clock")
	return cmd
}

// restoration founds a cell from a backup.
type restoration struct {
	from  string
	above *uint64 // nil: use the clock
	now   time.Time
}

// run founds the cell, and returns a report for the operator. The error is an
// exitError.
func (r *restoration) run(ctx context.Context, flags *config.Flags) (string, error) {
	var header lockapi.BackupHeader
	var saved replica.Saved
	err := wait.Do(ctx, func() (err error) { // the file may be a pipe, or on a disk that hangs
		header, saved, err = readBackup(r.from)
		return err
	})
	if ctx.Err() != nil {
		err = fmt.Errorf("--from %s: stopped while reading it: %w; nothing was written", r.from, context.Cause(ctx))
	}
	if err != nil {
		return "", exitError{code: exitStart, err: err}
	}
	c, err := config.LoadAs(ctx, flags, os.Environ(), header.Cell)
	if err != nil {
		return "", exitError{code: exitConfig, err: err}
	}
	if c.Dev {
		return "", exitError{code: exitConfig, err: errors.New("dev uses a temporary directory, removed at the end; give data-dir")}
	}
	if c.Cell != header.Cell {
		return "", exitError{code: exitConfig, err: fmt.Errorf("cell %q (%s): this is a backup of cell %q", c.Cell, c.Source("cell"), header.Cell)}
	}
	floor, err := r.floor(header.Time, saved)
	if err == nil {
		err = noneAnswers(ctx, c.Replicas, new(net.Dialer).DialContext)
	}
	if err != nil {
		return "", exitError{code: exitStart, err: err}
	}
	id, err := saved.Found(foundOptions(c), floor)
	if err != nil {
		return "", exitError{code: exitStart, err: setup.ExplainDataDir(c, c.DataDir, err)}
	}
	return fmt.Sprintf(`founded cell %s with id %s in %s, from the backup of %s at revision %d
tokens and revisions continue above %d
start stoutd with the same settings and --cell %s, and let it listen at the addresses of its replica entry
it serves after a minute, when every lease of the old cell has ended
`, c.Cell, id, c.DataDir, header.Time.Format(time.RFC3339), header.Revision, max(floor, saved.LastToken()+1), c.Cell), nil
}

// noneAnswers returns an error if a program accepts connections at an address of the
// new cell. It counts as a replica: it may hang, or have another secret.
func noneAnswers(ctx context.Context, all []membership.Member, dial func(ctx context.Context, network, address string) (net.Conn, error)) error {
	within, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var asked sync.WaitGroup
	answers := make([]bool, len(all))
	for i, m := range all {
		asked.Go(func() {
			conn, err := dial(within, "tcp", m.RaftAddr)
			if answers[i] = err == nil; err == nil {
				conn.Close()
			}
		})
	}
	asked.Wait()
	for i, m := range all {
		if answers[i] {
			return fmt.Errorf("replica %s: its address %s accepts connections: a replica of the old cell may run there, and two cells would grant the same locks; stop it permanently, or give another address; nothing was written", m.ID, m.RaftAddr)
		}
	}
	if ctx.Err() != nil { // a dial that was cut off shows nothing
		return fmt.Errorf("%w; nothing was written", context.Cause(ctx))
	}
	return nil
}

// foundOptions returns the options for founding a cell of one replica.
func foundOptions(c *config.Config) replica.Options {
	return replica.Options{
		Cell: c.Cell, ID: c.ID, DataDir: c.DataDir, Version: buildinfo.Version(),
		Members:     []membership.Member{c.Self()},
		MasterLease: c.MasterLease, WAL: c.LogStore == config.StoreWAL,
	}
}

// readBackup reads a whole backup. It refuses one that is not complete.
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
		err = errors.New("its header does not match its state")
	}
	if err != nil {
		return h, saved, fmt.Errorf("--from %s: %w; nothing was written", name, err)
	}
	return h, saved, nil
}

// readState reads the state in a backup. An unreadable state is most often damaged,
// which only the checksum at the end of the backup shows.
func readState(r *backup.Reader) (replica.Saved, error) {
	saved, wrong := replica.ReadSaved(r)
	if wrong == nil {
		return saved, nil
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return saved, err
	}
	return saved, fmt.Errorf("its SHA-256 is right, but this release cannot use its state (%w): use another backup, or the release that wrote this one", wrong)
}

// floor returns the least number for tokens and revisions of a cell that continues
// from a state of this time.
func (r *restoration) floor(of time.Time, saved replica.Saved) (uint64, error) {
	if r.above != nil {
		if *r.above >= lockapi.MaxToken {
			return 0, fmt.Errorf("--above %d: tokens are below 2^53; give a lower number; nothing was written", *r.above)
		}
		return *r.above + 1, nil
	}
	if r.now.Before(of) {
		return 0, fmt.Errorf("this machine's clock shows %s, before the backup's time %s: tokens could repeat; set the clock, or give by --above the highest token or revision that may be in use; nothing was written",
			r.now.UTC().Format(time.RFC3339), of.Format(time.RFC3339))
	}
	floor := replica.RestoreFloor(r.now)
	if used := max(saved.LastToken(), saved.Revision()); used >= floor {
		return 0, fmt.Errorf("the cell's numbers (up to %d) are ahead of the clock's (%d), as after a restore with --above: tokens could repeat; give by --above the highest token or revision that may be in use; nothing was written",
			used, floor)
	}
	return floor, nil
}
