package client

import "context"

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

// isVisible reports whether s is printable ASCII and not empty.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}
