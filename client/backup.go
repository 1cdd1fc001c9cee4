package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/stoutlock/stout/client/internal/wire"
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
	q := &call{method: http.MethodGet, path: lockapi.RouteBackup, fields: []field{{"Accept", lockapi.TypeBackup}}}
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	resp, err := c.openBackup(ctx, q)
	if err != nil {
		return lockapi.BackupHeader{}, err
	}
	defer resp.Body.Close()
	h, err := backup.Copy(w, watched{resp.Body, cut, mostSilence})
	switch {
	case err != nil:
		return lockapi.BackupHeader{}, &brokenBackup{errors.Join(err, context.Cause(ctx))}
	case strconv.FormatUint(h.Revision, 10) != resp.Header.Get(lockapi.HeaderRevision):
		return lockapi.BackupHeader{}, lockapi.Errorf(lockapi.CodeInternal, "the backup has revision %d, but the answer's header has %q", h.Revision, lockapi.Clip(resp.Header.Get(lockapi.HeaderRevision)))
	}
	return h, nil
}

// brokenBackup reports a backup that began and did not finish.
type brokenBackup struct{ err error }

func (e *brokenBackup) Error() string { return "the backup broke off: " + e.err.Error() }
func (e *brokenBackup) Unwrap() error { return e.err }

// openBackup finds a replica that begins a backup.
func (c *Client) openBackup(ctx context.Context, q *call) (*http.Response, error) {
	var (
		pause backoff
		last  error
		hops  int
	)
	for ctx.Err() == nil {
		r, err := c.calls.pick(ctx)
		if err != nil {
			last = err
			sleep(ctx, pause.next())
			continue
		}
		resp, err := c.calls.stream(ctx, r, q, lockapi.TypeBackup)
		if err == nil {
			return resp, nil
		}
		next, _ := c.calls.classify(ctx, r, q, err)
		if next == giveUp {
			return nil, q.outcome(err)
		}
		last = err
		if hops++; next == redirect && hops <= mostHops {
			continue
		}
		hops = 0
		sleep(ctx, pause.next())
	}
	return nil, q.givenUp(context.Cause(ctx), last)
}

// stream sends a call with a stream of the given media type as its answer. The
// answer must begin in time.
func (c *caller) stream(ctx context.Context, r *route, q *call, media string) (*http.Response, error) {
	sent := c.clock.now()
	resp, err := c.beginStream(ctx, r, q, media)
	q.add(account{answered: isAnswer(err), unsettled: err != nil, firstSent: sent})
	return resp, err
}

func (c *caller) beginStream(ctx context.Context, r *route, q *call, media string) (*http.Response, error) {
	as, err := c.authorization(ctx)
	if err != nil {
		return nil, &attemptError{base: r.to.base, err: err}
	}
	under, cut := context.WithCancelCause(ctx)
	late := time.AfterFunc(answerTime, func() { cut(errSilent) })
	resp, err := c.transportTo(r.to).RoundTrip(c.request(under, r, q, as))
	if !late.Stop() && err == nil {
		resp.Body.Close()
		err = errSilent
	}
	if err != nil {
		cut(nil)
		return nil, &attemptError{base: r.to.base, sent: !isDialError(err), err: errors.Join(err, context.Cause(under))}
	}
	resp.Body = &streamed{resp.Body, cut}
	if err := c.cell.check(r.to.base, q, resp.StatusCode, resp.Header); err != nil {
		resp.Body.Close()
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != media {
			resp.Body.Close()
			return nil, lockapi.Errorf(lockapi.CodeInternal, "%s answered %s %s with %q; check that it is the base URL of a replica", r.to.base, q.method, q.path, lockapi.Clip(kind))
		}
		c.targets.answered(r, resp.Header.Get(lockapi.HeaderMaster))
		return resp, nil
	}
	defer resp.Body.Close()
	buf := new(bytes.Buffer)
	a, err := wire.ReadAnswer(resp, buf, mostMessage)
	if err != nil {
		return nil, &attemptError{base: r.to.base, sent: true, err: err}
	}
	return nil, c.refusal(r, &a)
}

// streamed is a body that ends its call when it is closed.
type streamed struct {
	io.ReadCloser
	cut context.CancelCauseFunc
}

func (s *streamed) Close() error {
	defer s.cut(nil)
	return s.ReadCloser.Close()
}

// watched cuts a stream off after too long a silence.
type watched struct {
	io.Reader
	cut  context.CancelCauseFunc
	most time.Duration
}

func (h watched) Read(b []byte) (int, error) {
	silence := time.AfterFunc(h.most, func() { h.cut(errSilent) })
	defer silence.Stop()
	return h.Reader.Read(b)
}
