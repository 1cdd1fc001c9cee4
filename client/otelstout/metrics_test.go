package otelstout_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/otelstout"
	"github.com/stoutlock/stout/client/stouttest"
	_ "github.com/stoutlock/stout/internal/racebubble"
)

// TestMetrics: a session opens, is kept alive and closed.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdk.NewManualReader()
		provider := sdk.NewMeterProvider(sdk.WithReader(reader))
		c := stouttest.New(t, stouttest.Options{}).Client(func(to *client.Config) { to.Metrics = otelstout.NewMetrics(provider) })
		s, err := c.NewSession(t.Context(), client.TTL(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		var out metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		sums, counts := map[string]int64{}, map[string]uint64{}
		for _, m := range out.ScopeMetrics[0].Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					sums[m.Name+" "+p.Attributes.ToSlice()[0].Value.AsString()] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					counts[m.Name] += p.Count
				}
			}
		}
		want := map[string]int64{"stout.client.sessions safe": 0, "stout.client.session.changes safe": 1, "stout.client.session.changes expired": 1}
		if !maps.Equal(sums, want) || counts["stout.client.attempt.duration"] < 8 || counts["stout.client.lease.left"] < 6 {
			t.Errorf("%v, %v", sums, counts)
		}
	})
}
