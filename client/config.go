package client

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/stoutlock/stout/client/internal/wire"
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
	// Transport carries the requests. By default the client has connections of
	// its own, which it keeps alive, and calls https URLs, and those that the
	// environment names a proxy for, through an http.Transport of its own. One
	// given here must be safe for concurrent use and must not follow redirects
	// or repeat requests.
	Transport http.RoundTripper
	// Grace is how long a session in jeopardy tries to recover, from the end
	// of its local lease on. Default: DefaultGrace.
	Grace time.Duration
	// Logger is told of changes of a session's state (info and warn) and of
	// attempts that failed (debug). Default: nothing is logged.
	Logger *slog.Logger
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

// New makes a client, or says which setting is wrong.
func (c Config) New() (*Client, error) {
	if len(c.URLs) == 0 {
		return nil, errors.New("stout: no URL given; name the base URL of at least one replica")
	}
	if c.Grace < 0 {
		return nil, fmt.Errorf("stout: Grace is %s; it must not be negative (0 means %s)", c.Grace, DefaultGrace)
	}
	var endpoints []*endpoint
	for _, u := range c.URLs {
		e, err := givenEndpoint(u)
		if err != nil {
			return nil, err
		}
		endpoints = append(endpoints, e)
	}
	out := &Client{grace: c.Grace, log: c.Logger, clock: clock{now: c.Clock}}
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
		exchanger: exchanger{transport: c.Transport, headers: makeHeaders(c.UserAgent)},
		targets:   newTargets(endpoints, out.clock.now), clock: out.clock, log: out.log,
	}
	if c.Transport == nil {
		out.calls.transport, out.calls.wire = newTransport(), new(wire.Pool)
	}
	return out, nil
}

// newTransport makes the default transport for what is not spoken to directly.
// Each waiting Lock and each session's keepalive occupies a connection, so idle
// ones are kept in numbers.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 5 * time.Second,
		DisableCompression:  true,
	}
}
