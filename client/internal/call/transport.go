package call

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/stoutlock/stout/client/internal/wire"
	"github.com/stoutlock/stout/internal/dial"
)

// These bound the dialling of a TCP connection, and set the time between two of
// its keepalive probes.
const (
	dialTime = 2 * time.Second
	probing  = 15 * time.Second
)

// handshakeTime bounds connecting and the TLS handshake together. If a server
// is busy with many handshakes, giving up and beginning anew does not help it;
// replicas allow the same time.
const handshakeTime = 5 * time.Second

// transport owns the connections to endpoints. It uses connections of its own
// where it can. Otherwise it uses net/http, for example through a proxy. It is
// safe for concurrent use.
type transport struct {
	given  http.RoundTripper // the user's, instead of all the following; may be nil
	dialer *dial.Dialer
	source func() *tls.Config // see Config.TLSSource
	cert   string             // verifies certificates; empty means the endpoint's host

	plain, secure wire.Pool // own connections, without and with TLS

	mu       sync.Mutex // guards the following
	of       *tls.Config
	config   *tls.Config     // made from of; never changed
	standard *http.Transport // with that configuration
}

// newTransport makes a transport that verifies certificates against the name
// cert, unless the configuration has a ServerName itself.
func newTransport(d *dial.Dialer, source func() *tls.Config, cert string) *transport {
	t := &transport{dialer: d, source: source, cert: cert}
	t.plain.Dial = func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
	t.secure.DialTime = handshakeTime
	t.secure.Dial = t.dialTLS
	return t
}

// pool returns the own connections to an endpoint, or nil if it is reached
// through net/http.
func (t *transport) pool(e *Endpoint) *wire.Pool {
	switch {
	case t.given != nil || e.addr == "":
		return nil
	case e.scheme == "https":
		return &t.secure
	}
	return &t.plain
}

// RoundTrip sends a request through net/http.
func (t *transport) RoundTrip(q *http.Request) (*http.Response, error) {
	if t.given != nil {
		return t.given.RoundTrip(q)
	}
	_, standard := t.latest()
	return standard.RoundTrip(q)
}

// latest returns the present configuration, and the net/http transport with it.
// When the configuration has changed, calls under way finish on the old one.
//
// Each waiting Lock and each session's keepalive occupies a connection, so the
// net/http transport keeps many idle ones.
func (t *transport) latest() (*tls.Config, *http.Transport) {
	now := t.source()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.standard != nil && t.of == now {
		return t.config, t.standard
	}
	if t.standard != nil {
		t.standard.CloseIdleConnections()
	}
	t.of, t.config = now, now.Clone()
	if t.config == nil {
		t.config = new(tls.Config)
	}
	t.config.ServerName = cmp.Or(t.config.ServerName, t.cert)
	t.standard = &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTime)
			defer cancel()
			return t.dialer.DialContext(ctx, network, addr)
		},
		TLSClientConfig:     t.config.Clone(),
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: handshakeTime,
		DisableCompression:  true,
	}
	return t.config, t.standard
}

func (t *transport) dialTLS(ctx context.Context, addr string) (net.Conn, error) {
	latest, _ := t.latest()
	config := latest.Clone()
	config.NextProtos = []string{"http/1.1"}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	under, err := t.dialer.DialContext(dialing, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := tls.Client(under, config)
	if err := c.HandshakeContext(ctx); err != nil {
		_ = under.Close()
		return nil, err
	}
	return c, nil
}

func (t *transport) close() {
	if given, ok := t.given.(interface{ CloseIdleConnections() }); ok {
		given.CloseIdleConnections()
	}
	t.plain.CloseIdle()
	t.secure.CloseIdle()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.standard != nil {
		t.standard.CloseIdleConnections()
	}
}
