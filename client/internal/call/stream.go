package call

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/stoutlock/stout/client/internal/wire"
	"github.com/stoutlock/stout/lockapi"
)

// StreamTimeout bounds the silence on a stream: a bookmark of events comes every
// 10 s.
const StreamTimeout = 25 * time.Second

// openStream sends a call with a stream as its answer, which must begin within
// the given time.
func (c *Caller) openStream(ctx context.Context, r *Route, q *Call, within time.Duration) error {
	as, err := c.authorization(ctx, within)
	if err != nil {
		return &AttemptError{URL: r.To.URL, Err: err}
	}
	under, cut := context.WithCancelCause(ctx)
	late := time.AfterFunc(within, func() { cut(ErrSilent) })
	resp, err := c.transportTo(r.To).RoundTrip(c.request(under, r, q, append(as, [2]string{"Accept", q.StreamType})))
	if !late.Stop() && err == nil {
		resp.Body.Close()
		err = ErrSilent
	}
	if err != nil {
		cut(nil)
		return &AttemptError{URL: r.To.URL, Sent: !isDialError(err), Err: errors.Join(err, context.Cause(under))}
	}
	resp.Body = &streamed{resp.Body, cut}
	if err := c.checkStream(r, q, resp); err != nil {
		resp.Body.Close()
		return err
	}
	c.router.answered(r, resp.Header.Get(lockapi.HeaderMaster))
	return nil
}

// checkStream sets the stream of a call, and returns an error if the answer is
// not such a stream.
func (c *Caller) checkStream(r *Route, q *Call, resp *http.Response) error {
	if err := c.sameCell.check(r.To.URL, q, resp.StatusCode, resp.Header); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		a, err := wire.ReadAnswer(resp, new(bytes.Buffer), mostAnswer)
		if err != nil {
			return &AttemptError{URL: r.To.URL, Sent: true, Err: err}
		}
		return c.refusal(r, &a)
	}
	q.Stream = resp
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != q.StreamType {
		return lockapi.Errorf(lockapi.CodeInternal, "%s answered %s %s with %q; check that it is the base URL of a replica", r.To.URL, q.Method, q.Path, lockapi.Clip(kind))
	}
	return nil
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

// Stream makes a call with a stream as its answer, which the caller closes.
// A stream that is silent for too long ends with an error.
func (c *Caller) Stream(ctx context.Context, q *Call) (*http.Response, error) {
	ctx, cut := context.WithCancelCause(ctx)
	if err := c.repeat(ctx, q); err != nil {
		cut(nil)
		return nil, err
	}
	q.Stream.Body = &watched{streamed{q.Stream.Body, cut}}
	return q.Stream, nil
}

// watched is a stream that is cut off after too long a silence.
type watched struct{ streamed }

func (w *watched) Read(b []byte) (int, error) {
	silence := time.AfterFunc(StreamTimeout, func() { w.cut(ErrSilent) })
	n, err := w.streamed.Read(b)
	if !silence.Stop() && err != nil {
		err = errors.Join(err, ErrSilent)
	}
	return n, err
}
