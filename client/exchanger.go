package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/client/internal/wire"
	"github.com/stoutlock/stout/lockapi"
)

const mostAnswer = 64 << 20 // bytes of an answer's body

// exchanger makes HTTP round trips: over connections of its own where it can,
// else through net/http.
type exchanger struct {
	transport http.RoundTripper
	wire      *wire.Pool // for what needs no transport; nil where one was given
	headers   headers
}

// close closes the connections that are idle.
func (e *exchanger) close() {
	if e.wire != nil {
		e.wire.CloseIdle()
	}
	if t, ok := e.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// roundTrip makes one, of which the answer has to be there in time. The answer
// is in buf's memory.
func (e *exchanger) roundTrip(ctx context.Context, r *route, q *call, within time.Duration, buf *bytes.Buffer) (wire.Answer, error) {
	if e.wire != nil && r.to.addr != "" {
		return e.wire.Do(ctx, e.plain(r, q, within), buf, mostAnswer)
	}
	return e.standard(ctx, r, q, within, buf)
}

// plain builds one attempt's request for an endpoint that is spoken to
// directly.
func (e *exchanger) plain(r *route, q *call, within time.Duration) *wire.Request {
	h := e.headers.of(r, q).lines
	if len(q.fields) > 0 {
		h = slices.Clone(h)
		for _, f := range q.fields {
			h = append(append(append(append(h, f.name...), ": "...), f.value...), "\r\n"...)
		}
	}
	return &wire.Request{
		Method: q.method, Addr: r.to.addr, Host: r.to.host, Target: r.to.url(q.path, q.query).RequestURI(),
		Header: h, Body: q.body, Within: within, Hedger: &q.hedge, Patience: q.hedge.patience,
	}
}

// standard makes the exchange through net/http.
func (e *exchanger) standard(ctx context.Context, r *route, q *call, within time.Duration, buf *bytes.Buffer) (a wire.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	vigil := wire.NewVigil(&q.hedge, q.hedge.patience)
	stop := vigil.During(cancel)
	resp, err := e.transport.RoundTrip(e.request(ctx, r, q))
	stop()
	if err == nil {
		a, err = wire.ReadAnswer(resp, buf, mostAnswer)
		resp.Body.Close()
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", wire.ErrLate, err)
	}
	return a, err
}

// request builds one attempt's request for net/http. Its headers are shared and
// read-only, as RoundTripper's contract allows, except where a call has
// fields of its own.
func (e *exchanger) request(ctx context.Context, r *route, q *call) *http.Request {
	h := e.headers.of(r, q).header
	if len(q.fields) > 0 {
		h = h.Clone()
		for _, f := range q.fields {
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

// headers are the two sets of request headers: for calls that are not to be
// forwarded, and for those that may be.
type headers struct{ direct, forward headerSet }

// headerSet is a set of headers, and what it looks like on the wire.
type headerSet struct {
	header http.Header
	lines  []byte
}

func makeHeaders(agent string) headers {
	if agent == "" {
		agent = "stout-client"
	}
	forward := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json"},
		"User-Agent":   {agent},
	}
	direct := forward.Clone()
	direct.Set(lockapi.HeaderForward, lockapi.ForwardNever)
	return headers{direct: makeHeaderSet(direct), forward: makeHeaderSet(forward)}
}

func makeHeaderSet(h http.Header) headerSet {
	var lines bytes.Buffer
	_ = h.Write(&lines) // a line end in a value becomes a space
	return headerSet{h, lines.Bytes()}
}

// of is the set that goes with a call on a route.
func (h *headers) of(r *route, q *call) *headerSet {
	if r.forward || q.any {
		return &h.forward
	}
	return &h.direct
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func putBuffer(b *bytes.Buffer) {
	const most = 64 << 10 // a list's large answer is not worth keeping
	if b.Cap() <= most {
		b.Reset()
		buffers.Put(b)
	}
}
