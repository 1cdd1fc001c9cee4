package server

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// traceContext reads and writes the headers of W3C Trace Context. Baggage is
// dropped.
var traceContext propagation.TraceContext

// isTraced reports whether calls of the route get spans: all except the calls that
// monitoring sends to every replica every few seconds.
func (r *route) isTraced() bool {
	return r.asks != master.Nothing && r.template != lockapi.RouteMetrics
}

// trace starts the span of the call. Its parent is the caller's span, or the
// span of the replica that forwarded the call.
func (x *exchange) trace() {
	r := x.route
	parent := x.ctx()
	if x.mayTrace() {
		parent = traceContext.Extract(parent, propagation.HeaderCarrier(x.c.Request.Header))
	}
	ctx, span := x.opts.Tracer.Start(parent, r.method+" "+r.template, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", x.methodLabel()),
		attribute.String("http.route", r.template),
		attribute.String("url.path", lockapi.Clip(x.c.Request.URL.Path)),
		attribute.Bool("stout.forwarded", x.peer),
	))
	x.span = span
	if span.IsRecording() {
		x.timeline = new(master.Timeline)
	}
	x.c.Request = x.c.Request.WithContext(ctx)
}

// mayTrace reports whether the caller's own trace is used. It can force a span
// to be recorded that sampling would drop. While access control is on, the
// caller must be authenticated by this replica's own state.
func (x *exchange) mayTrace() bool {
	if x.peer || x.master == nil || len(x.c.Request.Header["Traceparent"]) == 0 {
		return true
	}
	var err error
	if x.secret, err = x.credential(); err != nil {
		return false
	}
	by := x.caller()
	by.Ask = master.Ask{Right: master.Known}
	return x.master.Authorize(by) == nil
}

// endSpan ends the span of the call and records its result. Each command in the
// log gets two child spans: the wait for its entry, and the time until a
// majority has the entry on disk and it is applied.
func (x *exchange) endSpan() {
	if x.timeline != nil {
		for _, w := range x.timeline.Writes() {
			x.stage("queue", w.Asked, w.Sent)
			x.stage("commit", w.Sent, w.Done, attribute.Int64("stout.log.index", int64(w.Index)), attribute.Int("stout.log.commands", w.With))
		}
	}
	status := x.statusLabel()
	x.span.SetAttributes(attribute.Int("http.response.status_code", status))
	if x.noted.code != "" {
		x.span.SetAttributes(attribute.String("error.type", string(x.noted.code)))
	}
	if status >= http.StatusInternalServerError {
		x.span.SetStatus(codes.Error, string(x.noted.code))
	}
	x.span.End()
}

func (x *exchange) stage(name string, from, to time.Time, more ...attribute.KeyValue) {
	_, span := x.opts.Tracer.Start(x.ctx(), name, trace.WithTimestamp(from), trace.WithAttributes(more...))
	span.End(trace.WithTimestamp(to))
}

// traceForward starts the span of the call to the master, and adds it to the
// headers in out.
func (x *exchange) traceForward(ctx context.Context, master string, out http.Header) (end func(error)) {
	if x.span == nil {
		return func(error) {}
	}
	ctx, span := x.opts.Tracer.Start(ctx, "forward", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("stout.master", master)))
	traceContext.Inject(ctx, propagation.HeaderCarrier(out))
	return func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
