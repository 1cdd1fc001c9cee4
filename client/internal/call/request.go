package call

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
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
func (c *Caller) roundTrip(ctx context.Context, r *Route, q *Call, within time.Duration, buf *bytes.Buffer) (wire.Answer, error) {
	as, err := c.authorization(ctx, within)
	if err != nil {
		return wire.Answer{}, err
	}
	a, err := c.send(ctx, r, q, within, as, buf)
	if err != nil || a.StatusCode != http.StatusUnauthorized || q.hedge != nil {
		return a, err
	}
	next, err := c.authorization(ctx, within)
	switch {
	case err != nil:
		return a, nil
	case !slices.Equal(next, as):
	case r.To.scheme == "https" && a.Last:
		c.closeIdle() // the other connections are as old
	default:
		return a, nil
	}
	buf.Reset()
	return c.send(ctx, r, q, within, next, buf)
}

// send makes one request, with a span if the call has one.
func (c *Caller) send(ctx context.Context, r *Route, q *Call, within time.Duration, as [][2]string, buf *bytes.Buffer) (a wire.Answer, err error) {
	if q.span != nil {
		fields, end := c.Tracer.Attempt(q.span, q.Method, q.Path, r.To.URL)
		as = slices.Clip(as)
		for _, f := range fields {
			if isVisible(f[0]) && isVisible(f[1]) { // else it could write further headers
				as = append(as, f)
			}
		}
		defer func() { end(a.StatusCode, err) }()
	}
	if c.Metrics != nil {
		began := c.Now()
		defer func() { c.Metrics.Attempt(q.Method, lockapi.Route(q.Path), a.StatusCode, c.Now()-began) }()
	}
	if pool := c.transportTo(r.To).pool(r.To); pool != nil {
		return pool.Do(ctx, c.wireRequest(r, q, within, as), buf, mostAnswer)
	}
	return c.sendStandard(ctx, r, q, within, as, buf)
}

// transportTo returns the transport for an endpoint.
func (c *Caller) transportTo(e *Endpoint) *transport { return c.transports[e.name] }

// Close closes idle connections and ends the search for replicas.
func (c *Caller) Close() {
	c.finder.close()
	c.closeIdle()
}

func (c *Caller) closeIdle() {
	for _, t := range c.transports {
		t.close()
	}
}

// wireRequest builds one attempt's request for the client's own connections.
func (c *Caller) wireRequest(r *Route, q *Call, within time.Duration, as [][2]string) *wire.Request {
	h := c.headersOf(r, q).lines
	if fields := q.with(as); len(fields) > 0 {
		h = slices.Clone(h)
		for _, f := range fields {
			h = append(append(append(append(h, f[0]...), ": "...), f[1]...), "\r\n"...)
		}
	}
	return &wire.Request{
		Method: q.Method, Addr: r.To.addr, Host: r.To.host, Target: r.To.address(q.Path, q.Query).RequestURI(),
		Header: h, Body: q.Body, Within: within, Hedger: q, Patience: q.patience, Aside: q.aside,
	}
}

// sendStandard makes one request through net/http. When a connection breaks,
// net/http resends a call with an idempotency key by itself. If the dial for
// that fails, the first request may still have arrived.
func (c *Caller) sendStandard(ctx context.Context, r *Route, q *Call, within time.Duration, as [][2]string, buf *bytes.Buffer) (a wire.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	watchdog := wire.NewWatchdog(q, q.patience)
	stop := watchdog.During(cancel)
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	resp, err := c.transportTo(r.To).RoundTrip(c.request(httptrace.WithClientTrace(ctx, trace), r, q, as))
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
func (c *Caller) request(ctx context.Context, r *Route, q *Call, as [][2]string) *http.Request {
	h := c.headersOf(r, q).header
	if fields := q.with(as); len(fields) > 0 {
		h = h.Clone()
		for _, f := range fields {
			h.Set(f[0], f[1])
		}
	}
	req := (&http.Request{
		Method: q.Method, URL: r.To.address(q.Path, q.Query), Host: r.To.host, Header: h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if q.Body != nil {
		req.ContentLength = int64(len(q.Body))
		req.Body = io.NopCloser(bytes.NewReader(q.Body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(q.Body)), nil }
	}
	return req
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
func (c *Caller) headersOf(r *Route, q *Call) *headers {
	if r.forward || q.Any {
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

// isVisible reports whether s is printable ASCII and not empty.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}

var errNoToken = errors.New("no token to send")

// badToken is an errNoToken that ends the call: the function has not failed, and
// returned a token that cannot be sent.
type badToken string

func (e badToken) Error() string        { return errNoToken.Error() + ": Config.Token returned " + string(e) }
func (e badToken) Is(target error) bool { return target == errNoToken }

// IsBadToken reports whether an attempt has failed because Config.Token returned a token
// that cannot be sent.
func IsBadToken(err error) bool {
	_, is := errors.AsType[badToken](err)
	return is
}

// authorization returns the header with the token of an attempt; empty if no
// function supplies tokens. The function has the time of the attempt. The error
// is an errNoToken.
func (c *Caller) authorization(ctx context.Context, within time.Duration) ([][2]string, error) {
	if c.Token == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	token, err := c.Token(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNoToken, err)
	case token == "":
		return nil, badToken("an empty token, not an error")
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, badToken("a token with a space, a control character or one outside ASCII")
	}
	return [][2]string{{"Authorization", "Bearer " + token}}, nil
}

// with returns the call's own header fields and more.
func (q *Call) with(more [][2]string) [][2]string {
	if len(more) == 0 {
		return q.Fields
	}
	return slices.Concat(q.Fields, more)
}
