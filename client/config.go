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
	"github.com/stoutlock/stout/internal/dial"
)

// DefaultGrace is how long a session in jeopardy goes on trying to reach the
// cell before it counts as expired; the value is Chubby's (section 2.8).
const DefaultGrace = 45 * time.Second

// Config is for those who need more than New. The zero value of each field but
// URLs stands for its default.
type Config struct {
	// URLs are the base URLs of any replicas of the cell, or names of the DNS that
	// stand for some, at least one; see New. One is enough to find the master, and
	// the others; more serve when that one is down at the start.
	URLs []string
	// OnlyURLs has the client call the replicas that URLs name, and the master that
	// they name, and no others. By default it asks the cell where its members are,
	// and follows it when its machines are replaced.
	OnlyURLs bool
	// Resolver asks the DNS. Default: net.DefaultResolver. What URLs name by the
	// names of hosts the system looks up.
	Resolver Resolver
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
	// time.Since(start) }, and closes the client before the bubble ends.
	Clock func() time.Duration
}

// New makes a client of the cell that the replicas at urls belong to. It does
// not connect yet. A URL has the form http://host:port or https://host:port,
// with or without a path to prefix the API's routes with; host:port alone
// stands for http://host:port.
//
// A name of the DNS stands for all replicas that it has addresses of, and is looked
// up again while the client runs:
//
//	dns:stout.prod.example:7101        the addresses of that host, at that port
//	dns:stout.prod.example             what the SRV records of _stout._tcp.stout.prod.example name
//	dns:_api._tcp.stout.prod.example   what these SRV records name
//
// They are called by http, or by https where it is set how (see NewWith); dns+http:
// and dns+https: say by which. The certificates are judged by the name that was
// given (stout.prod.example in all of these), since anybody may answer for the DNS,
// or by the ServerName of the tls.Config if it has one.
func New(urls ...string) (*Client, error) { return Config{URLs: urls}.New() }

// Option sets a field of a Config.
type Option func(*Config)

// WithTLS sets how https URLs are called, see Config.TLS.
func WithTLS(c *tls.Config) Option { return func(to *Config) { to.TLS = c } }

// WithOnlyURLs sets Config.OnlyURLs.
func WithOnlyURLs() Option { return func(to *Config) { to.OnlyURLs = true } }

// NewWith is New with options, such as WithTLS. With that host:port alone
// stands for https://host:port, and dns: for dns+https:.
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
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	fixed, names, err := c.given(scheme)
	if err != nil {
		return nil, err
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
		targets:   newTargets(fixed, out.clock.now), clock: out.clock, log: out.log,
		cell: sameCell{any: c.AnyCell, now: out.clock.now},
	}
	if c.Transport == nil {
		d := &dial.Dialer{KeepAlive: probing}
		out.calls.transport, out.calls.wire = &following{dialer: d, source: source}, newPools(d, source)
		out.calls.named = map[string]*way{}
		for _, n := range names {
			if n.scheme == "https" && out.calls.named[n.cert] == nil {
				out.calls.named[n.cert] = newWay(d, verifiedBy(n.cert, source))
			}
		}
	}
	out.calls.finder = newFinder(&out.calls, fixed, names, c.Resolver, !c.OnlyURLs)
	out.calls.targets.finder, out.calls.targets.probe = out.calls.finder, out.calls.probe
	return out, nil
}

// given reads URLs.
func (c *Config) given(scheme string) (fixed []*endpoint, names []*dnsName, err error) {
	for _, text := range c.URLs {
		if !isName(text) {
			e, err := givenEndpoint(text, scheme)
			if err != nil {
				return nil, nil, err
			}
			fixed = append(fixed, e)
			continue
		}
		n, err := parseName(text, scheme)
		switch {
		case err != nil:
			return nil, nil, err
		case c.Transport != nil && n.scheme == "https":
			return nil, nil, fmt.Errorf("stout: %q with a Transport: it can't be told by which name to judge the certificates; give TLS or TLSSource instead of the Transport, or URLs", text)
		}
		names = append(names, n)
	}
	return fixed, names, nil
}

// newTransport makes the default transport for what is not spoken to directly.
// Each waiting Lock and each session's keepalive occupies a connection, so idle
// ones are kept in numbers.
func newTransport(d *dial.Dialer, config *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTime)
			defer cancel()
			return d.DialContext(ctx, network, addr)
		},
		TLSClientConfig:     config.Clone(),
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: handshakeTime,
		DisableCompression:  true,
	}
}

// For connections of TCP: how long one may take to come about, and the time between
// two of its probes.
const (
	dialTime = 2 * time.Second
	probing  = 15 * time.Second
)
