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

// WithTracer sets Config.Tracer.
func WithTracer(t Tracer) Option { return func(c *Config) { c.Tracer = t } }

// traced makes a call with a span.
func (c *caller) traced(ctx context.Context, q *call) error {
	under, end := c.tracer.Call(ctx, q.method, q.path)
	q.span = under
	err := c.see(ctx, q)
	end(err)
	return err
}

// tracedSend makes one request of a call that has a span.
func (e *exchanger) tracedSend(q *call, r *route, as []field, send func([]field) (int, error)) {
	fields, end := e.tracer.Attempt(q.span, q.method, q.path, r.to.base)
	all := append(make([]field, 0, len(as)+len(fields)), as...)
	for _, f := range fields {
		if isVisible(f[0]) && isVisible(f[1]) { // else it could write further headers
			all = append(all, field{f[0], f[1]})
		}
	}
	end(send(all))
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
