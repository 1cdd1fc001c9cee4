package doctor

import (
	"io"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Figures are a replica's metrics, by name.
type Figures map[string]*dto.MetricFamily

// Metrics that are judged.
const (
	metricSync       = "stout_disk_sync_duration_seconds"
	metricElections  = "stout_raft_elections_total"
	metricMargin     = "stout_lease_renewal_margin_seconds"
	metricTerm       = "stout_lease_term_seconds"
	metricMaster     = "stout_is_master"
	metricDeadlocks  = "stout_deadlocks"
	metricQuotaMax   = "stout_quota_max"
	metricQuotaUsed  = "stout_quota_used"
	metricConns      = "stout_http_connections"
	metricMaxConns   = "stout_http_max_connections"
	metricCertEnds   = "stout_certificate_expiry_timestamp_seconds"
	metricCertLoads  = "stout_certificate_reloads_total"
	metricBackupAt   = "stout_backup_last_timestamp_seconds"
	metricBackupFail = "stout_backups_failed_total"
	metricAuditFails = "stout_audit_failing"
	metricAuditLines = "stout_audit_lines_total"
	metricUnsnapped  = "stout_snapshot_failures_total"
	metricSnapped    = "stout_snapshot_last_success_timestamp_seconds"
	metricFree       = "stout_disk_free_bytes"
	metricSumIndex   = "stout_state_checksum_index"
	metricSum        = "stout_state_checksum"
	metricClock      = "stout_member_clock_rate_difference_ratio" // as replicas see each other
	metricClockError = "stout_member_clock_rate_error_ratio"
	metricClockMost  = "stout_clock_rate_difference_max_ratio"
	metricOpenFiles  = "process_open_fds"
	metricMaxFiles   = "process_max_fds"
)

// maxFigures bounds the metrics that are read of one replica.
const maxFigures = 8 << 20

// ReadFigures reads Prometheus's text format.
func ReadFigures(r io.Reader) (Figures, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(io.LimitReader(r, maxFigures))
}

// value is that of the metric with the given labels, name and value in turn; the
// first one's where none are given.
func (f Figures) value(name string, labels ...string) (float64, bool) {
	if f[name] == nil {
		return 0, false
	}
	for _, m := range f[name].Metric {
		if hasLabels(m, labels) {
			return number(m), true
		}
	}
	return 0, false
}

func hasLabels(m *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		if label(m, labels[i]) != labels[i+1] {
			return false
		}
	}
	return true
}

// each calls f with the value of a label and that of the metric.
func (f Figures) each(name, by string, call func(label string, value float64)) {
	if f[name] == nil {
		return
	}
	for _, m := range f[name].Metric {
		call(label(m, by), number(m))
	}
}

func number(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	}
	return m.GetUntyped().GetValue()
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.Label {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// spread is a histogram without labels.
func (f Figures) spread(name string) *dto.Histogram {
	if f[name] == nil || len(f[name].Metric) == 0 {
		return nil
	}
	return f[name].Metric[0].GetHistogram()
}

// within is the bound of the first bucket that holds the share q of what was
// counted, and for how many that was counted; infinite where it is beyond the
// last bound. It is not less than the quantile.
func within(h *dto.Histogram, q float64) (bound float64, of uint64) {
	if h == nil || h.GetSampleCount() == 0 {
		return 0, 0
	}
	of = h.GetSampleCount()
	buckets := slices.Clone(h.Bucket)
	slices.SortFunc(buckets, func(a, b *dto.Bucket) int {
		if a.GetUpperBound() < b.GetUpperBound() {
			return -1
		}
		return 1
	})
	for _, b := range buckets {
		if float64(b.GetCumulativeCount()) >= q*float64(of) {
			return b.GetUpperBound(), of
		}
	}
	return math.Inf(1), of
}

// upTo is how many of what was counted are at most bound.
func upTo(h *dto.Histogram, bound float64) uint64 {
	var most uint64
	for _, b := range h.GetBucket() {
		if b.GetUpperBound() <= bound {
			most = max(most, b.GetCumulativeCount())
		}
	}
	return most
}

// seconds is a figure as a duration, the longest where it is none.
func seconds(s float64) time.Duration {
	if d := s * float64(time.Second); d > math.MinInt64 && d < math.MaxInt64 {
		return time.Duration(d)
	}
	return math.MaxInt64
}
