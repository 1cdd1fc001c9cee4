// Package tracing sends the spans of a process to a collector, by OTLP over HTTP.
package tracing

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Settings configure where spans go, and how many are recorded.
type Settings struct {
	Endpoint string  // base URL of the collector, http or https
	Share    float64 // of the calls without a trace of their own that start a trace, 0 to 1
	// The source of the spans, as resource attributes.
	Cell, Replica, Version string
	Log                    zerolog.Logger // logs lost spans, at most once a minute
}

// Traces sends spans in the background. Spans that the collector does not
// accept in time are dropped. No caller waits for it, and at most a few
// thousand spans wait in memory.
type Traces struct{ provider *sdk.TracerProvider }

// Open prepares the exporter; it does not connect yet. If a call arrives with a
// recorded trace, it is recorded here too. The usual environment variables of
// OpenTelemetry (OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_CERTIFICATE,
// OTEL_BSP_…) apply, except for the endpoint.
func Open(ctx context.Context, s Settings) (*Traces, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(s.Endpoint))
	if err != nil {
		return nil, fmt.Errorf("traces to %s: %w", s.Endpoint, err)
	}
	return &Traces{sdk.NewTracerProvider(
		sdk.WithBatcher(&reporting{exporter, s.Log.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Minute})}),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(s.Share))),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "stoutd"),
			attribute.String("service.namespace", s.Cell),
			attribute.String("service.instance.id", s.Replica),
			attribute.String("service.version", s.Version),
		)),
	)}, nil
}

// reporting logs what cannot be exported. OpenTelemetry's own handler of errors
// belongs to the whole program.
type reporting struct {
	sdk.SpanExporter
	log zerolog.Logger
}

func (e *reporting) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.log.Warn().Err(err).Msg("spans of traces are lost")
	}
	return nil
}

// Tracer returns the tracer that makes the spans.
func (t *Traces) Tracer() trace.Tracer { return t.provider.Tracer("github.com/stoutlock/stout") }

// Close sends the remaining spans, until ctx ends.
func (t *Traces) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }
