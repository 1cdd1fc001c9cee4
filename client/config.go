package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/internal/boottime"
)

// DefaultGrace is how long a session in jeopardy keeps trying to reach the cell
// before it counts as expired; the value is Chubby's (section 2.8).
const DefaultGrace = 45 * time.Second

// Config has the settings of a client. The zero value of each field except URLs
// means its default.
type Config struct {
	// URLs are the base URLs of any replicas of the cell, or DNS names that
	// stand for some; at least one, see New. One is enough to find the master
	// and the others. More URLs help when that replica is down at the start.
	URLs []string
	// OnlyURLs restricts the client to the replicas in URLs and the master that
	// they name. By default it asks the cell for its members, and follows the
	// cell when its machines are replaced.
	OnlyURLs bool
	// Resolver resolves the DNS names in URLs. Default: net.DefaultResolver.
	// Host names within URLs are resolved by the system.
	Resolver Resolver
	// TLS configures https URLs: the CAs that verify a replica's certificate
	// (RootCAs, by default the system's), and the certificate that the client
	// presents (Certificates or GetClientCertificate). Do not change it after
	// New. It does not apply to a given Transport.
	TLS *tls.Config
	// TLSSource replaces TLS if certificates or CAs change while the client
	// runs. It is called for each new connection, by many goroutines. It returns
	// the same pointer until the configuration changes; a returned value must
	// never change.
	TLSSource func() *tls.Config
	// Token returns the bearer token of each attempt: one of the cell's access
	// tokens, or a JWT. It is called for each attempt, by many goroutines, so a
	// replaced token takes effect at once. It should cache a token that is slow
	// to obtain. If a token is refused, the function is called once more, and
	// its token is sent if it differs. If the function fails, the attempt has no
	// token and counts as not sent. An empty token without an error, or one that is
	// not printable ASCII, ends the call. The token is sent to every URL that the
	// client calls, including http URLs. Default: no token.
	Token func(ctx context.Context) (string, error)
	// Transport carries the requests. By default the client keeps connections of
	// its own alive. It uses an http.Transport of its own for URLs for which the
	// environment names a proxy. A given Transport must be safe for concurrent
	// use and must not follow redirects or repeat requests.
	Transport http.RoundTripper
	// Grace is how long a session in jeopardy tries to recover, counted from the
	// end of its local lease. Default: DefaultGrace.
	Grace time.Duration
	// Logger receives changes of a session's state (info and warn) and failed
	// attempts (debug). A session logs its changes in order, soon after each.
	// Default: no log.
	Logger *slog.Logger
	// AnyCell makes the client accept any cell that answers, without an error.
	// By default it accepts only the cell of its first answer, see ErrOtherCell.
	AnyCell bool
	// Tracer receives the spans of calls, for distributed tracing. Default: no
	// tracing.
	Tracer Tracer
	// Metrics receives measurements of attempts and sessions. Default: none.
	Metrics Metrics
	// UserAgent is the User-Agent header of each request. Default:
	// "stout-client".
	UserAgent string

	// Clock is the clock that counts leases: it never steps, and keeps running
	// while the machine sleeps. Default: such a clock of the system, with timers
	// of its own. A test in a testing/synctest bubble gives the bubble's clock,
	// for example func() time.Duration { return time.Since(start) }, and closes
	// the client before the bubble ends.
	Clock func() time.Duration
}

// New makes a client of the cell that the replicas at urls belong to. It does
// not connect yet. A URL has the form http://host:port or https://host:port,
// with or without a path that prefixes the API's routes; host:port alone means
// http://host:port.
//
// A DNS name means all replicas at its addresses. The client resolves it
// again while it runs:
//
//	dns:stout.prod.example:7101        the addresses of that host, at that port
//	dns:stout.prod.example             the SRV records of _stout._tcp.stout.prod.example
//	dns:_api._tcp.stout.prod.example   these SRV records
//
// The client calls these by http, or by https if TLS is configured (see
// Config); dns+http: and dns+https: set the scheme. Certificates are verified
// against the given name (stout.prod.example in each example), since the DNS is
// not trusted, or against the ServerName of the tls.Config if it has one.
func New(urls ...string) (*Client, error) { return Config{URLs: urls}.New() }

// New makes a client, or reports the setting that is wrong. With TLS
// configured, host:port alone means https://host:port, and dns: means
// dns+https:.
func (c Config) New() (*Client, error) {
	if len(c.URLs) == 0 {
		return nil, errors.New("stout: no URL given; name the base URL of at least one replica")
	}
	if c.Grace < 0 {
		return nil, fmt.Errorf("stout: Grace is %s; it must not be negative (0 means %s)", c.Grace, DefaultGrace)
	}
	scheme, source := "http", c.TLSSource
	switch {
	case c.TLS != nil && source != nil:
		return nil, errors.New("stout: TLS and TLSSource are both given; give only one of them")
	case c.TLS != nil || source != nil:
		if c.Transport != nil {
			return nil, errors.New("stout: TLS and Transport are both given; configure TLS in the Transport itself")
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
	out := &Client{grace: cmp.Or(c.Grace, DefaultGrace), log: c.Logger, clock: clock{now: c.Clock}, metrics: c.Metrics}
	out.seen.any, out.tokens.any = c.AnyCell, c.AnyCell
	if out.log == nil {
		out.log = slog.New(slog.DiscardHandler)
	}
	if out.clock.now == nil {
		out.clock = clock{boottime.Now, true}
	}
	var err error
	out.calls, err = call.New(call.Settings{
		URLs: c.URLs, OnlyURLs: c.OnlyURLs, Resolver: c.Resolver, Scheme: scheme, TLS: source, Transport: c.Transport,
		AnyCell: c.AnyCell, UserAgent: c.UserAgent, Token: c.Token, Tracer: c.Tracer, Metrics: c.Metrics, Log: out.log, Now: out.clock.now,
	})
	if err != nil {
		return nil, err
	}
	if out.metrics == nil {
		out.metrics = noMetrics{}
	}
	return out, nil
}

// Resolver resolves DNS names; *net.Resolver is one. Its methods return when
// their context ends.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, addrs []*net.SRV, err error)
}

// Tracer records the calls of a Client for distributed tracing. Package
// otelstout has one for OpenTelemetry. Its methods are called by many
// goroutines, and must not block.
//
// It receives the calls of the API, each once with all its attempts, but not
// streams of events or backups.
type Tracer interface {
	// Call begins the span of a call, with its method and its path without the
	// query. ctx is the caller's; the returned context is passed to the call's
	// attempts. end is called once, with the call's outcome.
	Call(ctx context.Context, method, path string) (_ context.Context, end func(error))
	// Attempt begins the span of one request for the call with that context, at
	// a replica's base URL. Attempts may overlap if a replica is silent. The
	// request's header gets the fields, which are pairs of name and value, for
	// example traceparent. end is called once, with the status of the answer, or
	// with 0 and the error if there is no answer.
	Attempt(ctx context.Context, method, path, base string) (fields [][2]string, end func(status int, err error))
}

// Metrics receives measurements of a Client. Packages promstout and otelstout
// implement it for Prometheus and OpenTelemetry. Its methods are called by many
// goroutines, sometimes under a mutex: they must not block or call the client.
type Metrics interface {
	// Attempt reports one request to a replica: its method, its route as
	// lockapi.Route returns it, the status of the answer or 0 without an answer,
	// and its duration. A waiting call lasts as long as it waits.
	Attempt(method, route string, status int, took time.Duration)
	// Session reports a session's change of state. A session that opens was
	// Expired.
	Session(was, now State)
	// Renewed reports that a keepalive has extended a session's local lease:
	// what was left of it just before, 0 in jeopardy, and its ttl. If little is
	// left regularly, the ttl is too short for the network.
	Renewed(left, ttl time.Duration)
}

// noMetrics drops all measurements.
type noMetrics struct{}

func (noMetrics) Attempt(string, string, int, time.Duration) {}
func (noMetrics) Session(State, State)                       {}
func (noMetrics) Renewed(time.Duration, time.Duration)       {}
