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

// Backup writes a backup of the whole cell to w, with every change that was
// acknowledged before the call, and says what it is of. It takes the permission
// operate while access is on.
//
// Where the error is not nil, what was written to w is not a backup. A master that
// can't be reached is looked for until ctx ends; but once the first byte was
// written nothing is sent again: a backup that breaks off is an error.
// ErrTooMany says that the cell is busy with others.
func (c *Client) Backup(ctx context.Context, w io.Writer) (lockapi.BackupHeader, error) {
	q := &call{method: http.MethodGet, path: lockapi.RouteBackup, fields: []field{{"Accept", lockapi.TypeBackup}}}
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	resp, err := c.openBackup(ctx, q)
	if err != nil {
		return lockapi.BackupHeader{}, err
	}
	defer resp.Body.Close()
	h, err := backup.Copy(w, heard{resp.Body, cut, mostSilence})
	switch {
	case err != nil:
		return lockapi.BackupHeader{}, &brokenBackup{errors.Join(err, context.Cause(ctx))}
	case strconv.FormatUint(h.Revision, 10) != resp.Header.Get(lockapi.HeaderRevision):
		return lockapi.BackupHeader{}, lockapi.Errorf(lockapi.CodeInternal, "the backup says that it is of revision %d, and the answer that it is of %q", h.Revision, lockapi.Clip(resp.Header.Get(lockapi.HeaderRevision)))
	}
	return h, nil
}

// brokenBackup is one that began, and did not come to its end.
type brokenBackup struct{ err error }

func (e *brokenBackup) Error() string { return "the backup broke off: " + e.err.Error() }
func (e *brokenBackup) Unwrap() error { return e.err }

// openBackup finds a replica that begins with a backup.
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

// stream sends a call whose answer is a stream of the given media type. The answer
// has to begin in time.
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
			return nil, lockapi.Errorf(lockapi.CodeInternal, "%s answered %s %s with %q; is it the base URL of a replica?", r.to.base, q.method, q.path, lockapi.Clip(kind))
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

// streamed is a body whose call ends when it is closed.
type streamed struct {
	io.ReadCloser
	cut context.CancelCauseFunc
}

func (s *streamed) Close() error {
	defer s.cut(nil)
	return s.ReadCloser.Close()
}

// heard cuts a stream off that says nothing for too long.
type heard struct {
	io.Reader
	cut  context.CancelCauseFunc
	most time.Duration
}

func (h heard) Read(b []byte) (int, error) {
	silence := time.AfterFunc(h.most, func() { h.cut(errSilent) })
	defer silence.Stop()
	return h.Reader.Read(b)
}
