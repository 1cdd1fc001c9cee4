package ask

import (
	"cmp"
	"io"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are a replica's metrics, by name.
type Metrics map[string]*dto.MetricFamily

// ReadMetrics reads Prometheus's text format.
func ReadMetrics(r io.Reader) (Metrics, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(r)
}

// Value returns the first value of a metric with the given labels, as
// alternating names and values.
func (m Metrics) Value(name string, labels ...string) (value float64, ok bool) {
	m.Each(name, func(label func(string) string, v float64) {
		for i := 0; i < len(labels); i += 2 {
			if label(labels[i]) != labels[i+1] {
				return
			}
		}
		if !ok {
			value, ok = v, true
		}
	})
	return value, ok
}

// Each calls f with each value of a metric and its labels.
func (m Metrics) Each(name string, f func(label func(name string) string, value float64)) {
	for _, one := range m[name].GetMetric() {
		value := one.GetUntyped().GetValue()
		if one.Gauge != nil {
			value = one.Gauge.GetValue()
		} else if one.Counter != nil {
			value = one.Counter.GetValue()
		}
		f(func(name string) string {
			for _, l := range one.Label {
				if l.GetName() == name {
					return l.GetValue()
				}
			}
			return ""
		}, value)
	}
}

// Within returns the bound of the first bucket of a histogram without labels
// that covers the share q of the observations, and their number. It is infinite
// beyond the last bucket, and never less than the quantile.
func (m Metrics) Within(name string, q float64) (bound float64, of uint64) {
	h := m.histogram(name)
	of = h.GetSampleCount()
	buckets := slices.SortedFunc(slices.Values(h.GetBucket()), func(a, b *dto.Bucket) int { return cmp.Compare(a.GetUpperBound(), b.GetUpperBound()) })
	for _, b := range buckets {
		if float64(b.GetCumulativeCount()) >= q*float64(of) {
			return b.GetUpperBound(), of
		}
	}
	return math.Inf(1), of
}

// UpTo returns how many observations are at most bound.
func (m Metrics) UpTo(name string, bound float64) (most uint64) {
	for _, b := range m.histogram(name).GetBucket() {
		if b.GetUpperBound() <= bound {
			most = max(most, b.GetCumulativeCount())
		}
	}
	return most
}

func (m Metrics) histogram(name string) *dto.Histogram {
	if all := m[name].GetMetric(); len(all) > 0 {
		return all[0].GetHistogram()
	}
	return nil
}
