// Package otelstout makes OpenTelemetry spans of the calls of package client.
// Their trace reaches the cell in the headers of W3C Trace Context:
//
//	c, err := client.Config{URLs: urls, Tracer: otelstout.New(nil), Metrics: otelstout.NewMetrics(nil)}.New()
//	...
//	ctx, span := tracer.Start(ctx, "nightly job")
//	held, err := session.Lock(ctx, "/jobs/nightly") // a child of the span, and what the cell does below it
//
// A call makes spans only if its context has one already. The calls that a
// session makes by itself, such as keepalives, have no spans.
//
// Only programs that import this package depend on OpenTelemetry.
package otelstout

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// scope is the name of the instrumentation.
const scope = "github.com/stoutlock/stout/client/otelstout"

// New returns a tracer for client.Config. A nil provider means the global one.
func New(p trace.TracerProvider) client.Tracer {
	if p == nil {
		p = otel.GetTracerProvider()
	}
	return &tracer{spans: p.Tracer(scope)}
}

type tracer struct{ spans trace.Tracer }

// Call makes a span for a whole call.
func (t *tracer) Call(ctx context.Context, method, path string) (context.Context, func(error)) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, func(error) {}
	}
	ctx, span := t.spans.Start(ctx, "stout "+method+" "+lockapi.Route(path), trace.WithAttributes(attribute.String("stout.path", lockapi.Clip(path))))
	return ctx, func(err error) {
		fail(span, err)
		span.End()
	}
}

// Attempt makes a span for one request of a call, as OpenTelemetry's conventions for
// HTTP clients have it.
func (t *tracer) Attempt(ctx context.Context, method, path, base string) ([][2]string, func(int, error)) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil, func(int, error) {}
	}
	ctx, span := t.spans.Start(ctx, method+" "+lockapi.Route(path), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(target(method, base)...))
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	var fields [][2]string
	for name, value := range carrier {
		fields = append(fields, [2]string{name, value})
	}
	return fields, func(status int, err error) {
		if status != 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", status))
		}
		if err == nil && status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, strconv.Itoa(status))
		}
		fail(span, err)
		span.End()
	}
}

// target returns the attributes of a request to a replica.
func target(method, base string) []attribute.KeyValue {
	out := []attribute.KeyValue{attribute.String("http.request.method", method)}
	u, err := url.Parse(base)
	if err != nil {
		return out
	}
	out = append(out, attribute.String("server.address", u.Hostname()))
	if port, err := strconv.Atoi(u.Port()); err == nil {
		out = append(out, attribute.Int("server.port", port))
	}
	return out
}

// fail records an error in a span. A held lock, or a caller that gave up, is
// not a fault: it does not mark the span as failed.
func fail(span trace.Span, err error) {
	if err == nil {
		return
	}
	var refused *lockapi.Error
	if errors.As(err, &refused) {
		span.SetAttributes(attribute.String("error.type", string(refused.Code)))
		if refused.Code.Status() < http.StatusInternalServerError {
			return
		}
	}
	if errors.Is(err, context.Canceled) {
		return
	}
	span.SetStatus(codes.Error, err.Error())
}
