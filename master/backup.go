package master

import (
	"context"
	"io"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// Backup is the whole state of the cell, for as long as somebody keeps it.
type Backup struct {
	Header lockapi.BackupHeader // without its format
	// Snapshot writes the state. It may be called more than once, beside anything.
	Snapshot func(w io.Writer) error
}

// Backup is a backup of the cell as of now: with every change that was acknowledged
// before the call. The error is no_master on a replica that is not the master.
func (m *Master) Backup(ctx context.Context, r Read) (Backup, error) {
	r.Stale = false
	return read(ctx, m, &r, func(_ *office, s *state.State) (Backup, error) { return m.backupOf(s, false), nil })
}

// OwnBackup is a backup of this replica's own state, whoever is master. It is
// marked stale unless this replica is the master, and held its lease. The error is
// no_master before a cell that is founded with access on has it on: whoever
// restored such a backup would have a cell that is open to everybody. It is
// no_master as well while this replica, since its start, has heard of no master, or
// has not applied what it knows to be committed: it starts with its last snapshot,
// and what is behind that in its log it does not know to be true.
func (m *Master) OwnBackup() (Backup, error) {
	o := m.inOffice()
	h := m.members.Health()
	s := m.log.State()
	if m.opts.awaitsFounding(s) {
		return Backup{}, errFounding()
	}
	if o == nil && !h.Heard {
		return Backup{}, errNoMaster("this replica has heard of no master since it was started, and has but the state of its last snapshot")
	}
	if o == nil && h.Behind > caughtUpWithin {
		return Backup{}, errNoMaster("this replica is %d entries behind, and reads its log", h.Behind)
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
