package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stoutlock/stout/client/internal/wire"
	"github.com/stoutlock/stout/lockapi"
)

const (
	mostAnswer     = 64 << 20 // bytes of an answer's body
	mostRetryAfter = 24 * 60 * 60
)

// exchange is one HTTP round trip, of which the answer has to be there in time.
func (c *Client) exchange(ctx context.Context, r *route, q *call, within time.Duration) error {
	buf := buffers.Get().(*bytes.Buffer)
	defer putBuffer(buf)
	var a wire.Answer
	var err error
	if c.wire != nil && r.to.addr != "" {
		a, err = c.wire.Do(ctx, c.plain(r, q, within), buf, mostAnswer)
	} else {
		a, err = c.roundTrip(ctx, r, q, within, buf)
	}
	if err != nil {
		return &attemptError{base: r.to.base, sent: !isDialError(err), err: err}
	}
	if a.StatusCode >= 300 {
		return c.refusal(r, &a)
	}
	stale := a.Header.Get(lockapi.HeaderStale) != ""
	if wrong := q.read(&a, stale); wrong != "" {
		return lockapi.Errorf(lockapi.CodeInternal, "%s answered %s %s with %s", r.to.base, q.method, q.path, wrong)
	}
	c.targets.answered(r, a.Header.Get(lockapi.HeaderMaster))
	if !q.any && !stale {
		r.answered(c.now(), q)
	}
	return nil
}

// read takes a successful answer in. It says what is wrong with it, if anything is.
func (q *call) read(a *wire.Answer, stale bool) string {
	if wrong := q.verify(a.StatusCode, stale); wrong != "" || q.out == nil {
		return wrong
	}
	if err := decode(a.Body, q.out); err != nil {
		return "what is not the JSON expected: " + err.Error()
	}
	if q.check == nil {
		return ""
	}
	return q.check(q)
}

// plain builds one attempt's request for an endpoint that is spoken to directly.
func (c *Client) plain(r *route, q *call, within time.Duration) *wire.Request {
	h := c.headers.of(r, q).lines
	if q.key != "" {
		h = slices.Concat(h, []byte(lockapi.HeaderIdempotencyKey+": "+q.key+"\r\n"))
	}
	return &wire.Request{
		Method: q.method, Addr: r.to.addr, Host: r.to.host, Target: r.to.url(q.path, q.query).RequestURI(),
		Header: h, Body: q.body, Within: within, Hedger: &q.hedge, Patience: q.hedge.patience,
	}
}

// roundTrip makes the exchange through net/http. The answer is in buf's memory.
func (c *Client) roundTrip(ctx context.Context, r *route, q *call, within time.Duration, buf *bytes.Buffer) (a wire.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	vigil := wire.NewVigil(&q.hedge, q.hedge.patience)
	stop := vigil.During(cancel)
	resp, err := c.transport.RoundTrip(c.request(ctx, r, q))
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

// request builds one attempt's request for net/http. Its headers are shared and read-only,
// as RoundTripper's contract allows, except where a key has to be added.
func (c *Client) request(ctx context.Context, r *route, q *call) *http.Request {
	h := c.headers.of(r, q).header
	if q.key != "" {
		h = h.Clone()
		h[lockapi.HeaderIdempotencyKey] = []string{q.key}
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

// refusal reads an answer other than 2xx. What is not a problem document of the
// contract comes from something between us and the cell, which may have let the
// call through; gateways too answer in JSON, with codes of their own.
func (c *Client) refusal(r *route, a *wire.Answer) error {
	var p lockapi.Problem
	if decode(a.Body, &p) != nil || !p.Code.Valid() || p.Code.Status() != a.StatusCode {
		code := lockapi.CodeInternal
		switch a.StatusCode {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			code = lockapi.CodeOutcomeUnknown
		case http.StatusNotFound:
			code = lockapi.CodeNotFound
		}
		return &foreignAnswer{lockapi.Errorf(code, "%s answered %d %s, which no replica does; is it the base URL of one?", r.to.base, a.StatusCode, http.StatusText(a.StatusCode))}
	}
	e := p.Err()
	if n, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = min(max(n, 0), mostRetryAfter)
	}
	e.DelayRemainingMS = max(e.DelayRemainingMS, 0)
	switch e.Code {
	case lockapi.CodeNotMaster, lockapi.CodeNoMaster, lockapi.CodeOutcomeUnknown:
		// judge decides where to go.
	default:
		c.targets.answered(r, a.Header.Get(lockapi.HeaderMaster))
	}
	return e
}

func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
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
