package embed

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/internal/tracing"
)

// openTraces starts the sending of spans, if the settings name a collector. Otherwise
// it returns a nil tracer.
func (r *Replica) openTraces(ctx context.Context) (trace.Tracer, error) {
	c := r.config
	if c.TraceEndpoint == "" {
		return nil, nil
	}
	t, err := tracing.Open(ctx, tracing.Settings{
		Endpoint: c.TraceEndpoint, Share: c.TraceShare,
		Cell: c.Cell, Replica: c.ID, Version: buildinfo.Version(), Log: r.log,
	})
	if err != nil {
		return nil, err
	}
	r.traces = t
	return t.Tracer(), nil
}
