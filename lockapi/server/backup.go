package server

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/internal/throttle"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
	"github.com/stoutlock/stout/master"
)

// mostBackups bounds the backups that a master sends at a time, also through other
// replicas. Each keeps the state of its beginning in memory.
const mostBackups = 2

// Results of a backup, as metrics label them.
const (
	backupWhole  = "whole"
	backupBroken = "broken"
)

var typeBackup = []string{lockapi.TypeBackup}

// readBackup streams the whole state of the cell. If the stream fails, it
// breaks off; HTTP and the checksum in the backup both reveal that it is
// incomplete.
func readBackup(x *exchange) error {
	t := task{repeatable: true}
	return x.seek(t, x.writeBackup, func(at Location) error { return x.relayBackup(at, t) })
}

// writeBackup sends this master's own state. After each piece it pauses for as
// long as the piece took, so that other calls get a processor.
func (x *exchange) writeBackup() error {
	if err := x.pace(false); err != nil {
		return err
	}
	answer, out, err := x.do(x.ctx(), false, &lockapi.GetBackup{})
	if err != nil {
		return err
	}
	if !x.backups.Enter(1) { // only now: a denied call takes no place
		e := lockapi.TooMany("backups", int64(x.backups.Most), int64(x.backups.Most), "this replica already sends %d backups, the most at a time; try again later", x.backups.Most)
		e.RetryAfter = 5
		return e
	}
	defer x.backups.Leave(1)
	b := answer.(master.Backup)
	h := x.c.Writer.Header()
	x.stamp(h)
	h[lockapi.HeaderRevision] = []string{strconv.FormatUint(out.Revision, 10)}
	if x.beginBackup() {
		return nil
	}
	x.endBackup(backup.Write(throttle.NewWriter(flushing{x}), b.Header, b.Snapshot))
	return nil
}

// beginBackup sends the headers, and reports whether the reply is complete.
func (x *exchange) beginBackup() (all bool) {
	x.identify()
	h := x.c.Writer.Header()
	h["Content-Type"] = typeBackup
	x.c.Writer.WriteHeader(http.StatusOK)
	if x.c.Request.Method == http.MethodHead {
		x.c.Writer.WriteHeaderNow()
		return true
	}
	x.c.Writer.Flush()
	return false
}

// endBackup breaks the reply off if it was not sent completely.
func (x *exchange) endBackup(err error) {
	if err == nil {
		x.metrics.backups.WithLabelValues(backupWhole).Inc()
		return
	}
	x.metrics.backups.WithLabelValues(backupBroken).Inc()
	x.noted.code = lockapi.CodeInternal
	x.log.Warn().Err(err).Msg("a backup was sent only in part")
	panic(http.ErrAbortHandler)
}

// flushing sends each write at once, so that the backup is not kept in memory.
type flushing struct{ *exchange }

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.c.Writer.Write(b)
	if err == nil {
		f.c.Writer.Flush()
		err = f.ctx().Err()
	}
	return n, err
}

// relayBackup forwards the master's backup as it arrives.
func (x *exchange) relayBackup(at Location, t task) error {
	if err := x.keepGlass(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(x.ctx())
	defer cancel()
	if !x.sends() {
		return x.errSent(at)
	}
	resp, _, err := x.ask(ctx, at.ID)
	x.sent.Leave(1)
	if err != nil {
		x.metrics.forwarded.WithLabelValues(forwardFailed).Inc()
		return lockapi.Errorf(lockapi.CodeNoMaster, "master %s at %s cannot be reached: %v", at.ID, at.URL, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		got, err := peers.ReadAnswer(resp)
		if err != nil {
			x.metrics.forwarded.WithLabelValues(forwardFailed).Inc()
			return lockapi.Errorf(lockapi.CodeNoMaster, "the answer of master %s was lost: %v", at.ID, err)
		}
		return x.conclude(got, t)
	}
	x.metrics.forwarded.WithLabelValues(forwardAnswered).Inc()
	x.noted.elsewhere = true
	x.copyHeaders(resp.Header)
	if x.beginBackup() {
		return nil
	}
	_, err = io.Copy(flushing{x}, resp.Body)
	x.endBackup(err)
	return nil
}
