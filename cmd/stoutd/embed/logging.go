package embed

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoutlock/stout/internal/nonblock"
)

// logging is the metrics of the log.
type logging struct{ lines *nonblock.Writer }

var logDroppedDesc = prometheus.NewDesc("stout_log_lines_dropped_total",
	"Lines of the log that were dropped, since standard error took none or failed.", nil, nil)

func (logging) Describe(to chan<- *prometheus.Desc) { to <- logDroppedDesc }

func (l logging) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(logDroppedDesc, prometheus.CounterValue, float64(l.lines.Dropped()))
}
