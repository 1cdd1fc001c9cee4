package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

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
func (c *Client) Backup(ctx context.Context, w io.Writer) (lockapi.BackupHeader, error) {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	q := &call{method: http.MethodGet, path: lockapi.RouteBackup, media: lockapi.TypeBackup}
	if err := c.calls.repeat(ctx, q); err != nil {
		return lockapi.BackupHeader{}, err
	}
	defer q.stream.Body.Close()
	revision := q.stream.Header.Get(lockapi.HeaderRevision)
	h, err := backup.Copy(w, watched{q.stream.Body, cut})
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

// watched cuts a stream off after too long a silence.
type watched struct {
	io.Reader
	cut context.CancelCauseFunc
}

func (h watched) Read(b []byte) (int, error) {
	silence := time.AfterFunc(mostSilence, func() { h.cut(errSilent) })
	defer silence.Stop()
	return h.Reader.Read(b)
}
