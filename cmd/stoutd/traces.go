package main

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/internal/tracing"
)

// openTraces begins to send spans, where the settings name a collector; else there
// is nobody who makes any.
func (p *process) openTraces(ctx context.Context) (trace.Tracer, error) {
	c := p.config
	if c.TraceEndpoint == "" {
		return nil, nil
	}
	t, err := tracing.Open(ctx, tracing.Settings{
		Endpoint: c.TraceEndpoint, Share: c.TraceShare,
		Cell: c.Cell, Replica: c.ID, Version: buildinfo.Version(), Log: p.log,
	})
	if err != nil {
		return nil, err
	}
	p.traces = t
	return t.Tracer(), nil
}
