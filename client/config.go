package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/stoutlock/stout/internal/boottime"
)

// DefaultGrace is how long a session in jeopardy goes on trying to reach the
// cell before it counts as expired; the value is Chubby's (section 2.8).
const DefaultGrace = 45 * time.Second

// Config is for those who need more than New. The zero value of each field but
// URLs stands for its default.
type Config struct {
	// URLs are the base URLs of any replicas of the cell, at least one; see
	// New. One is enough to find the master; the others serve when that one is
	// down.
	URLs []string
	// TLS says how https URLs are called: by which CAs a replica's certificate is
	// judged (RootCAs, by default those of the system), and which certificate the
	// client shows (Certificates or GetClientCertificate). It is not to be changed
	// afterwards, and has no part in what a Transport does.
	TLS *tls.Config
	// TLSSource stands in place of TLS where certificates or CAs change while the
	// client runs: it is asked for each new connection, by many goroutines. What
	// it returns is the same one until it is another, and never changed.
	TLSSource func() *tls.Config
	// Token is asked for the token that an attempt carries; see WithToken.
	Token func(ctx context.Context) (string, error)
	// Transport carries the requests. By default the client has connections of
	// its own, which it keeps alive, and calls URLs that the environment names a
	// proxy for through an http.Transport of its own. One given here must be safe
	// for concurrent use and must not follow redirects or repeat requests.
	Transport http.RoundTripper
	// Grace is how long a session in jeopardy tries to recover, from the end
	// of its local lease on. Default: DefaultGrace.
	Grace time.Duration
	// Logger is told of changes of a session's state (info and warn) and of
	// attempts that failed (debug). Default: nothing is logged.
	Logger *slog.Logger
	// AnyCell has the client go on with whichever cell answers, without a word. By
	// default it speaks with the cell of the first answer only, see ErrOtherCell.
	AnyCell bool
	// Tracer is told of the spans of calls, for distributed tracing. Default: nobody.
	Tracer Tracer
	// UserAgent goes with every request. Default: "stout-client".
	UserAgent string

	// Clock is the clock that leases are counted on: one that never steps, and
	// goes on while the machine sleeps. Default: such a clock of the system,
	// with timers of its own. A test in a bubble of testing/synctest gives the
	// bubble's clock, for instance func() time.Duration { return
	// time.Since(start) }.
	Clock func() time.Duration
}

// New makes a client of the cell that the replicas at urls belong to. It does
// not connect yet. A URL has the form http://host:port or https://host:port,
// with or without a path to prefix the API's routes with; host:port alone
// stands for http://host:port.
func New(urls ...string) (*Client, error) { return Config{URLs: urls}.New() }

// Option sets a field of a Config.
type Option func(*Config)

// WithTLS sets how https URLs are called, see Config.TLS.
func WithTLS(c *tls.Config) Option { return func(to *Config) { to.TLS = c } }

// NewWith is New with options, such as WithTLS. With that host:port alone
// stands for https://host:port.
func NewWith(urls []string, opts ...Option) (*Client, error) { return Config{URLs: urls}.New(opts...) }

// New makes a client, or says which setting is wrong. Options go before the
// fields that they set.
func (c Config) New(opts ...Option) (*Client, error) {
	for _, opt := range opts {
		opt(&c)
	}
	if len(c.URLs) == 0 {
		return nil, errors.New("stout: no URL given; name the base URL of at least one replica")
	}
	if c.Grace < 0 {
		return nil, fmt.Errorf("stout: Grace is %s; it must not be negative (0 means %s)", c.Grace, DefaultGrace)
	}
	scheme, source := "http", c.TLSSource
	switch {
	case c.TLS != nil && source != nil:
		return nil, errors.New("stout: TLS and TLSSource are both given; one of them says how https URLs are called")
	case c.TLS != nil || source != nil:
		if c.Transport != nil {
			return nil, errors.New("stout: TLS and Transport are both given; what TLS a Transport speaks is its own business")
		}
		scheme = "https"
	}
	if source == nil {
		fixed := c.TLS.Clone()
		source = func() *tls.Config { return fixed }
	}
	var endpoints []*endpoint
	for _, u := range c.URLs {
		e, err := givenEndpoint(u, scheme)
		if err != nil {
			return nil, err
		}
		endpoints = append(endpoints, e)
	}
	out := &Client{grace: c.Grace, log: c.Logger, clock: clock{now: c.Clock}, scheme: scheme}
	if out.grace == 0 {
		out.grace = DefaultGrace
	}
	if out.log == nil {
		out.log = slog.New(slog.DiscardHandler)
	}
	if out.clock.now == nil {
		out.clock = clock{boottime.Now, true}
	}
	out.calls = caller{
		exchanger: exchanger{transport: c.Transport, headers: makeHeaders(c.UserAgent), token: c.Token, tracer: c.Tracer},
		targets:   newTargets(endpoints, out.clock.now), clock: out.clock, log: out.log,
		cell: sameCell{any: c.AnyCell},
	}
	if c.Transport == nil {
		out.calls.transport, out.calls.wire = &following{source: source}, newPools(source)
	}
	return out, nil
}

// newTransport makes the default transport for what is not spoken to directly.
// Each waiting Lock and each session's keepalive occupies a connection, so idle
// ones are kept in numbers.
func newTransport(config *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         newDialer().DialContext,
		TLSClientConfig:     config.Clone(),
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: handshakeTime,
		DisableCompression:  true,
	}
}

func newDialer() *net.Dialer {
	return &net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}
}
