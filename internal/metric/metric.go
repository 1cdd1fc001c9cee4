// Package metric has figures that are declared where they are observed. Each
// component of a replica returns its Set, and package lockapi/server shows all
// of them at /metrics. Only that package needs a metrics library.
package metric

import (
	"slices"
	"time"
)

// Metric is a figure under its Prometheus name: a gauge, a counter or a
// histogram of seconds.
type Metric struct {
	Name, Help string
	Labels     []string // names of the labels
	Counter    bool     // it only grows

	// Read passes the present value of each series to show. It is nil for a
	// histogram.
	Read func(show Show)
	// Histogram is the series with these label values.
	Histogram *Histogram
	Values    []string
}

// Show receives a series: its value, and the value of each label.
type Show func(value float64, labels ...string)

// Set is the metrics of one component.
type Set []Metric

// Gauge adds a gauge. read is called when the metrics are shown.
func (s *Set) Gauge(name, help string, read func() float64) {
	s.Gauges(name, help, nil, func(show Show) { show(read()) })
}

// Gauges adds a gauge for each combination of labels that read shows.
func (s *Set) Gauges(name, help string, labels []string, read func(Show)) {
	*s = append(*s, Metric{Name: name, Help: help, Labels: labels, Read: read})
}

// Counter adds a counter. read is called when the metrics are shown.
func (s *Set) Counter(name, help string, read func() uint64) {
	s.Counters(name, help, nil, func(show Show) { show(float64(read())) })
}

// Counters adds a counter for each combination of labels that read shows.
func (s *Set) Counters(name, help string, labels []string, read func(Show)) {
	*s = append(*s, Metric{Name: name, Help: help, Labels: labels, Counter: true, Read: read})
}

// Histogram adds a histogram with the given bounds, in ascending order.
func (s *Set) Histogram(name, help string, bounds ...time.Duration) *Histogram {
	return s.In(Family{Name: name, Help: help, Bounds: bounds}, "")
}

// In adds the histogram of a family for one value of its label.
func (s *Set) In(f Family, value string) *Histogram {
	m := Metric{Name: f.Name, Help: f.Help, Histogram: NewHistogram(f.Bounds...)}
	if f.Label != "" {
		m.Labels, m.Values = []string{f.Label}, []string{value}
	}
	*s = append(*s, m)
	return m.Histogram
}

// Value returns the present value of a gauge or a counter; 0 if there is no
// such series.
func (s Set) Value(name string, labels ...string) (value float64) {
	for _, m := range s {
		if m.Name == name && m.Read != nil {
			m.Read(func(v float64, of ...string) {
				if slices.Equal(of, labels) {
					value = v
				}
			})
		}
	}
	return value
}

// If returns 1 if a condition holds, else 0, for use as a gauge.
func If(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// Unix returns a time as the value of a gauge; 0 for the zero time.
func Unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// Family is a metric with one histogram per value of a label. Several packages
// may observe it.
type Family struct {
	Name, Help, Label string
	Bounds            []time.Duration
}

const us, ms = time.Microsecond, time.Millisecond

// WriteStage times the stages of a write, and FailoverStep the steps by which a
// replica comes into office.
var (
	WriteStage = Family{"stout_write_stage_duration_seconds", "Time of the stages of writes through this replica as master: queue, disk, followers, apply, reply.", "stage",
		[]time.Duration{10 * us, 25 * us, 50 * us, 100 * us, 250 * us, 500 * us, ms, 2500 * us, 5 * ms, 10 * ms, 25 * ms, 50 * ms,
			100 * ms, 250 * ms, 500 * ms, time.Second, 5 * time.Second}}
	FailoverStep = Family{"stout_failover_step_duration_seconds", "Time of the steps by which this replica came into office: detect, elect, barrier, wait, open.", "step",
		[]time.Duration{ms, 5 * ms, 10 * ms, 25 * ms, 50 * ms, 100 * ms, 250 * ms, 500 * ms, time.Second, 2 * time.Second, 5 * time.Second,
			10 * time.Second, 30 * time.Second, time.Minute}}
)
