package client

import "time"

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
