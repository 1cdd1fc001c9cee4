package master

import (
	"context"
	"io"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// Backup is the whole state of the cell at one revision.
type Backup struct {
	Header lockapi.BackupHeader // without its format
	// Snapshot writes the state. It may be called repeatedly and
	// concurrently.
	Snapshot func(w io.Writer) error
}

// GetBackup returns a backup of the cell with every change that was
// acknowledged before the call. The error is no_master on a replica that is not
// the master.
func (m *Master) GetBackup(ctx context.Context, r *Read, _ *lockapi.GetBackup) (Backup, error) {
	r.Stale = false
	return read(ctx, m, r, func(_ *office, s *state.State) (Backup, error) { return m.backupOf(s, false), nil })
}

// OwnBackup returns a backup of this replica's own state, with or without a
// master. It is marked stale unless this replica is the master and held its
// lease. The error is no_master before the replica has caught up with a master
// since its start. It is no_master, too, in a cell founded with access on until
// access is on: a cell restored from such a backup would be open to everybody.
// OwnBackup checks no credential, so there is no other bound on the age of the
// state.
func (m *Master) OwnBackup() (Backup, error) {
	o := m.inOffice()
	s, _, err := m.caughtUp()
	if err != nil {
		return Backup{}, err
	}
	return m.backupOf(s, o == nil || !o.leaseValid()), nil
}

func (m *Master) backupOf(s *state.State, stale bool) Backup {
	h := lockapi.BackupHeader{
		Cell: m.opts.Cell, CellID: m.CellID(), Time: time.Now().UTC(), Release: m.opts.Version, Replica: m.opts.ID,
		Stale: stale, Index: s.Index, Revision: s.Revision, Token: s.LastToken(),
		Contents: lockapi.BackupContents{
			Sessions: s.SessionCount(), Holds: s.HoldCount(), Waiters: s.WaitCount(), Locks: s.LockCount(),
			Files: s.FileCount(), ContentBytes: s.ContentBytes(),
			Rules: s.Policy().RuleCount(), Groups: s.Policy().GroupCount(), Tokens: s.TokenCount(), Access: s.AccessOn,
		},
	}
	return Backup{Header: h, Snapshot: s.Snapshot}
}
