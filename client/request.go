package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client/internal/wire"
	"github.com/stoutlock/stout/lockapi"
)

const mostAnswer = 64 << 20 // bytes of an answer's body

// roundTrip sends a call with a credential and returns its answer, which must
// arrive within the given time. The answer uses buf's memory.
//
// If the credential was refused, it sends the call once more, if there is
// another credential now. A token may expire on its way, or while a call waits.
// A connection keeps the client certificate of its handshake, which may be
// older than the present one.
func (c *caller) roundTrip(ctx context.Context, r *route, q *call, within time.Duration, buf *bytes.Buffer) (wire.Answer, error) {
	as, err := c.authorization(ctx)
	if err != nil {
		return wire.Answer{}, err
	}
	a, err := c.send(ctx, r, q, within, as, buf)
	if err != nil || a.StatusCode != http.StatusUnauthorized || q.hedge != nil {
		return a, err
	}
	next, err := c.authorization(ctx)
	switch {
	case err != nil:
		return a, nil
	case !slices.Equal(next, as):
	case r.to.scheme == "https" && a.Last:
		c.close() // the other connections are as old
	default:
		return a, nil
	}
	buf.Reset()
	return c.send(ctx, r, q, within, next, buf)
}

// send makes one request, with a span if the call has one.
func (c *caller) send(ctx context.Context, r *route, q *call, within time.Duration, as []field, buf *bytes.Buffer) (a wire.Answer, err error) {
	if q.span != nil {
		fields, end := c.tracer.Attempt(q.span, q.method, q.path, r.to.base)
		as = slices.Clip(as)
		for _, f := range fields {
			if isVisible(f[0]) && isVisible(f[1]) { // else it could write further headers
				as = append(as, field{f[0], f[1]})
			}
		}
		defer func() { end(a.StatusCode, err) }()
	}
	if c.metrics != (noMetrics{}) {
		began := c.clock.now()
		defer func() { c.metrics.Attempt(q.method, lockapi.Route(q.path), a.StatusCode, c.clock.now()-began) }()
	}
	if pool := c.transportTo(r.to).pool(r.to); pool != nil {
		return pool.Do(ctx, c.wireRequest(r, q, within, as), buf, mostAnswer)
	}
	return c.sendStandard(ctx, r, q, within, as, buf)
}

// transportTo returns the transport for an endpoint.
func (c *caller) transportTo(e *endpoint) *transport { return c.transports[e.name] }

// close closes idle connections.
func (c *caller) close() {
	for _, t := range c.transports {
		t.close()
	}
}

// wireRequest builds one attempt's request for the client's own connections.
func (c *caller) wireRequest(r *route, q *call, within time.Duration, as []field) *wire.Request {
	h := c.headersOf(r, q).lines
	if fields := q.with(as); len(fields) > 0 {
		h = slices.Clone(h)
		for _, f := range fields {
			h = append(append(append(append(h, f.name...), ": "...), f.value...), "\r\n"...)
		}
	}
	return &wire.Request{
		Method: q.method, Addr: r.to.addr, Host: r.to.host, Target: r.to.url(q.path, q.query).RequestURI(),
		Header: h, Body: q.body, Within: within, Hedger: q, Patience: q.patience, Aside: q.aside,
	}
}

// sendStandard makes one request through net/http. When a connection breaks,
// net/http resends a call with an idempotency key by itself. If the dial for
// that fails, the first request may still have arrived.
func (c *caller) sendStandard(ctx context.Context, r *route, q *call, within time.Duration, as []field, buf *bytes.Buffer) (a wire.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	watchdog := wire.NewWatchdog(q, q.patience)
	stop := watchdog.During(cancel)
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	resp, err := c.transportTo(r.to).RoundTrip(c.request(httptrace.WithClientTrace(ctx, trace), r, q, as))
	stop()
	if isDialError(err) && connected.Load() {
		err = fmt.Errorf("sent once, then failed to reconnect: %s", err.Error())
	}
	late := wire.ErrLate
	if err == nil {
		a, err = wire.ReadAnswer(resp, buf, mostAnswer)
		resp.Body.Close()
		late = wire.ErrStalled
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", late, err)
	}
	return a, err
}

// request builds one attempt's request for net/http. Its headers are shared and
// read-only, as RoundTripper's contract allows, unless a call has header fields
// of its own.
func (c *caller) request(ctx context.Context, r *route, q *call, as []field) *http.Request {
	h := c.headersOf(r, q).header
	if fields := q.with(as); len(fields) > 0 {
		h = h.Clone()
		for _, f := range fields {
			h.Set(f.name, f.value)
		}
	}
	req := (&http.Request{
		Method: q.method, URL: r.to.url(q.path, q.query), Host: r.to.host, Header: h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if q.body != nil {
		req.ContentLength = int64(len(q.body))
		req.Body = io.NopCloser(bytes.NewReader(q.body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(q.body)), nil }
	}
	return req
}

// openStream sends a call with a stream as its answer, which must begin within
// the given time.
func (c *caller) openStream(ctx context.Context, r *route, q *call, within time.Duration) error {
	as, err := c.authorization(ctx)
	if err != nil {
		return &attemptError{base: r.to.base, err: err}
	}
	under, cut := context.WithCancelCause(ctx)
	late := time.AfterFunc(within, func() { cut(errSilent) })
	resp, err := c.transportTo(r.to).RoundTrip(c.request(under, r, q, append(as, field{"Accept", q.media})))
	if !late.Stop() && err == nil {
		resp.Body.Close()
		err = errSilent
	}
	if err != nil {
		cut(nil)
		return &attemptError{base: r.to.base, sent: !isDialError(err), err: errors.Join(err, context.Cause(under))}
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
func (c *caller) checkStream(r *route, q *call, resp *http.Response) error {
	if err := c.cell.check(r.to.base, q, resp.StatusCode, resp.Header); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		a, err := wire.ReadAnswer(resp, new(bytes.Buffer), mostMessage)
		if err != nil {
			return &attemptError{base: r.to.base, sent: true, err: err}
		}
		return c.refusal(r, &a)
	}
	q.stream = resp
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != q.media {
		return lockapi.Errorf(lockapi.CodeInternal, "%s answered %s %s with %q; check that it is the base URL of a replica", r.to.base, q.method, q.path, lockapi.Clip(kind))
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

// headers are the header fields that calls have in common, and their bytes on
// the wire.
type headers struct {
	header http.Header
	lines  []byte
}

func makeHeaders(agent, forward string) headers {
	h := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json"},
		"User-Agent":   {cmp.Or(agent, "stout-client")},
	}
	if forward != "" {
		h.Set(lockapi.HeaderForward, forward)
	}
	var lines bytes.Buffer
	_ = h.Write(&lines) // a line end in a value becomes a space
	return headers{h, lines.Bytes()}
}

// headersOf returns the headers of a call on a route.
func (c *caller) headersOf(r *route, q *call) *headers {
	if r.forward || q.any {
		return &c.forward
	}
	return &c.direct
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func putBuffer(b *bytes.Buffer) {
	const most = 64 << 10 // a list's large answer is not worth keeping
	if b.Cap() <= most {
		b.Reset()
		buffers.Put(b)
	}
}
