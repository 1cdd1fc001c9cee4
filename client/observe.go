package client

import (
	"context"
	"time"
)

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
// have it for Prometheus and OpenTelemetry. Its methods are called by many
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
