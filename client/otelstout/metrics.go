package otelstout

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/stoutlock/stout/client"
)

// NewMetrics returns metrics for client.Config. A nil provider means the global
// one. They have the names of package promstout with dots, such as
// stout.client.attempt.duration.
func NewMetrics(p metric.MeterProvider) client.Metrics {
	if p == nil {
		p = otel.GetMeterProvider()
	}
	meter, m := p.Meter(scope), &metrics{}
	// An instrument that cannot be made reports its error to OpenTelemetry's
	// handler, and measures nothing.
	var errs [4]error
	m.attempts, errs[0] = meter.Float64Histogram("stout.client.attempt.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of requests to replicas. A waiting call lasts as long as it waits. Status 0 had no answer."),
		metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)) // as in promstout
	m.sessions, errs[1] = meter.Int64UpDownCounter("stout.client.sessions", metric.WithDescription("Open sessions by state."))
	m.changes, errs[2] = meter.Int64Counter("stout.client.session.changes",
		metric.WithDescription("Changes of a session's state, including its opening."))
	m.left, errs[3] = meter.Float64Histogram("stout.client.lease.left", metric.WithUnit("1"),
		metric.WithDescription("The rest of a session's local lease when it was renewed, as a share of its ttl."),
		metric.WithExplicitBucketBoundaries(0, .05, .1, .15, .2, .25, .3, .35, .5))
	for _, err := range errs {
		if err != nil {
			otel.Handle(err)
		}
	}
	return m
}

type metrics struct {
	attempts metric.Float64Histogram
	sessions metric.Int64UpDownCounter
	changes  metric.Int64Counter
	left     metric.Float64Histogram
}

func (m *metrics) Attempt(method, route string, status int, took time.Duration) {
	m.attempts.Record(context.Background(), took.Seconds(), metric.WithAttributes(
		attribute.String("http.request.method", method), attribute.String("http.route", route), attribute.Int("http.response.status_code", status)))
}

func (m *metrics) Session(was, now client.State) {
	ctx := context.Background()
	m.changes.Add(ctx, 1, metric.WithAttributes(attribute.String("to", now.String())))
	if was != client.Expired {
		m.sessions.Add(ctx, -1, metric.WithAttributes(attribute.String("state", was.String())))
	}
	if now != client.Expired {
		m.sessions.Add(ctx, 1, metric.WithAttributes(attribute.String("state", now.String())))
	}
}

func (m *metrics) Renewed(left, ttl time.Duration) {
	m.left.Record(context.Background(), left.Seconds()/ttl.Seconds())
}
