package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client/internal/wire"
	"github.com/stoutlock/stout/internal/dial"
	"github.com/stoutlock/stout/lockapi"
)

const mostAnswer = 64 << 20 // bytes of an answer's body

// exchanger makes HTTP round trips: over its own connections where it can,
// otherwise through net/http.
type exchanger struct {
	transport http.RoundTripper
	wire      *pools          // own connections; nil if a transport was given
	named     map[string]*way // for endpoints verified against a DNS name
	headers   headers
	token     func(context.Context) (string, error) // nil: sends no token
	tracer    Tracer                                // nil: records no spans
}

// way is how endpoints are reached: through net/http or over own connections.
type way struct {
	transport http.RoundTripper
	wire      *pools
}

// newWay makes a way with the TLS configuration of source.
func newWay(d *dial.Dialer, source func() *tls.Config) *way {
	return &way{&following{dialer: d, source: source}, newPools(d, source)}
}

// verifiedBy returns a source of configurations that verify certificates
// against a name, unless the configuration has a ServerName itself.
func verifiedBy(name string, source func() *tls.Config) func() *tls.Config {
	var mu sync.Mutex
	var of, out *tls.Config
	return func() *tls.Config {
		now := source()
		mu.Lock()
		defer mu.Unlock()
		if out == nil || now != of {
			of, out = now, now.Clone()
			if out == nil {
				out = new(tls.Config)
			}
			if out.ServerName == "" {
				out.ServerName = name
			}
		}
		return out
	}
}

// transportTo returns the transport for an endpoint.
func (e *exchanger) transportTo(to *endpoint) http.RoundTripper {
	if w := e.named[to.name]; w != nil {
		return w.transport
	}
	return e.transport
}

// wireTo returns the connections to an endpoint, or nil if it is reached
// through the transport.
func (e *exchanger) wireTo(to *endpoint) *wire.Pool {
	pools := e.wire
	if w := e.named[to.name]; w != nil {
		pools = w.wire
	}
	if pools == nil || to.addr == "" {
		return nil
	}
	return pools.of(to)
}

// pools are the connections without TLS and those with it.
type pools struct{ plain, secure wire.Pool }

// handshakeTime bounds connecting and the TLS handshake together. If a server
// is busy with many handshakes, giving up and beginning anew does not help it;
// replicas allow the same time.
const handshakeTime = 5 * time.Second

// dialTLS dials with a config that it may change.
func dialTLS(ctx context.Context, d *dial.Dialer, addr string, config *tls.Config) (net.Conn, error) {
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	under, err := d.DialContext(dialing, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	c := tls.Client(under, config)
	if err := c.HandshakeContext(ctx); err != nil {
		_ = under.Close()
		return nil, err
	}
	return c, nil
}

// newPools makes connections with the TLS configuration of source.
func newPools(d *dial.Dialer, source func() *tls.Config) *pools {
	p := new(pools)
	p.plain.Dial = func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
	p.secure.DialTime = handshakeTime
	p.secure.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
		config := source().Clone()
		if config == nil {
			config = new(tls.Config)
		}
		config.NextProtos = []string{"http/1.1"}
		return dialTLS(ctx, d, addr, config)
	}
	return p
}

// following is a transport that is replaced when its TLS configuration changes.
// Calls under way finish on the old one.
type following struct {
	dialer *dial.Dialer
	source func() *tls.Config

	mu     sync.Mutex // guards the following
	latest *http.Transport
	of     *tls.Config
}

func (f *following) RoundTrip(q *http.Request) (*http.Response, error) {
	config := f.source()
	f.mu.Lock()
	if f.latest == nil || f.of != config {
		if f.latest != nil {
			f.latest.CloseIdleConnections()
		}
		f.latest, f.of = newTransport(f.dialer, config), config
	}
	t := f.latest
	f.mu.Unlock()
	return t.RoundTrip(q)
}

func (f *following) CloseIdleConnections() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.latest != nil {
		f.latest.CloseIdleConnections()
	}
}

// of returns the pool for an endpoint.
func (p *pools) of(e *endpoint) *wire.Pool {
	if e.scheme == "https" {
		return &p.secure
	}
	return &p.plain
}

func (p *pools) close() {
	p.plain.CloseIdle()
	p.secure.CloseIdle()
}

// close closes idle connections.
func (e *exchanger) close() {
	if e.wire != nil {
		e.wire.close()
	}
	for _, w := range e.named {
		w.wire.close()
		w.transport.(*following).CloseIdleConnections()
	}
	if t, ok := e.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// roundTrip sends a call and returns its answer, which must arrive within the
// given time. The answer uses buf's memory.
//
// If the credential was refused, it sends the call once more, if there is
// another credential now. A token may expire on its way, or while a call waits.
// A connection keeps the client certificate of its handshake, which may be
// older than the present one.
func (e *exchanger) roundTrip(ctx context.Context, r *route, q *call, within time.Duration, buf *bytes.Buffer) (wire.Answer, error) {
	as, err := e.authorization(ctx)
	if err != nil {
		return wire.Answer{}, &unsentError{err}
	}
	a, err := e.send(ctx, r, q, within, as, buf)
	if err != nil || a.StatusCode != http.StatusUnauthorized || q.hedge.race != nil {
		return a, err
	}
	next, err := e.authorization(ctx)
	switch {
	case err != nil:
		return a, nil
	case !slices.Equal(next, as):
	case r.to.scheme == "https" && a.Last:
		e.close() // the other connections are as old
	default:
		return a, nil
	}
	buf.Reset()
	return e.send(ctx, r, q, within, next, buf)
}

func (e *exchanger) send(ctx context.Context, r *route, q *call, within time.Duration, as []field, buf *bytes.Buffer) (a wire.Answer, err error) {
	if q.span == nil {
		return e.transmit(ctx, r, q, within, as, buf)
	}
	e.tracedSend(q, r, as, func(as []field) (int, error) {
		a, err = e.transmit(ctx, r, q, within, as, buf)
		return a.StatusCode, err
	})
	return a, err
}

func (e *exchanger) transmit(ctx context.Context, r *route, q *call, within time.Duration, as []field, buf *bytes.Buffer) (wire.Answer, error) {
	if pool := e.wireTo(r.to); pool != nil {
		return pool.Do(ctx, e.plain(r, q, within, as), buf, mostAnswer)
	}
	return e.standard(ctx, r, q, within, as, buf)
}

// plain builds one attempt's request for a direct connection.
func (e *exchanger) plain(r *route, q *call, within time.Duration, as []field) *wire.Request {
	h := e.headers.of(r, q).lines
	if fields := q.with(as); len(fields) > 0 {
		h = slices.Clone(h)
		for _, f := range fields {
			h = append(append(append(append(h, f.name...), ": "...), f.value...), "\r\n"...)
		}
	}
	return &wire.Request{
		Method: q.method, Addr: r.to.addr, Host: r.to.host, Target: r.to.url(q.path, q.query).RequestURI(),
		Header: h, Body: q.body, Within: within, Hedger: &q.hedge, Patience: q.hedge.patience, Aside: q.aside,
	}
}

// standard makes the round trip through net/http. When a connection breaks,
// net/http resends a call with an idempotency key by itself. If the dial for
// that fails, the first request may still have arrived.
func (e *exchanger) standard(ctx context.Context, r *route, q *call, within time.Duration, as []field, buf *bytes.Buffer) (a wire.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	vigil := wire.NewWatchdog(&q.hedge, q.hedge.patience)
	stop := vigil.During(cancel)
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	resp, err := e.transportTo(r.to).RoundTrip(e.request(httptrace.WithClientTrace(ctx, trace), r, q, as))
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
func (e *exchanger) request(ctx context.Context, r *route, q *call, as []field) *http.Request {
	h := e.headers.of(r, q).header
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

// headers are the two sets of request headers: without and with permission to
// forward the call.
type headers struct{ direct, forward headerSet }

// headerSet is a set of headers, and its bytes on the wire.
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

// of returns the set for a call on a route.
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
