package admin

import (
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/lockapi"
)

// Backup writes a backup of the whole cell to w and returns its header. It
// contains every change that was acknowledged before the call. While access
// control is on, it requires the permission operate.
//
// If the error is not nil, the bytes written to w are not a backup. Backup
// looks for a master until ctx ends. After the first byte it does not retry: an
// interrupted backup is an error. ErrTooMany means that the cell is busy with
// other backups.
func (a *Admin) Backup(ctx context.Context, w io.Writer) (lockapi.BackupHeader, error) {
	answer, err := a.c.Stream(ctx, bridge.Call{Path: lockapi.RouteBackup}, lockapi.TypeBackup)
	if err != nil {
		return lockapi.BackupHeader{}, err
	}
	defer answer.Body.Close()
	revision := answer.Header.Get(lockapi.HeaderRevision)
	h, err := backup.Copy(w, answer.Body)
	switch {
	case err != nil:
		return lockapi.BackupHeader{}, &brokenBackup{errors.Join(err, context.Cause(ctx))}
	case strconv.FormatUint(h.Revision, 10) != revision:
		return lockapi.BackupHeader{}, lockapi.Errorf(lockapi.CodeInternal, "the backup has revision %d, but the answer's header has %q", h.Revision, lockapi.Clip(revision))
	}
	return h, nil
}

// brokenBackup reports a backup that began and did not finish.
type brokenBackup struct{ err error }

func (e *brokenBackup) Error() string { return "the backup broke off: " + e.err.Error() }
func (e *brokenBackup) Unwrap() error { return e.err }
