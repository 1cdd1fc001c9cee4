package embed

import (
	"cmp"
	"fmt"
	"io"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/internal/audit"
	"github.com/stoutlock/stout/master"
)

// openAudit opens the audit log that the settings name, nil where they name none.
func openAudit(c *config.Config, log zerolog.Logger) (*audit.Log, error) {
	if c.AuditLog == "" {
		return nil, nil
	}
	l, err := audit.Open(audit.Options{
		Path: c.AuditLog, Stdout: audit.Writer(cmp.Or(c.Stdout, io.Writer(os.Stdout))), Required: c.AuditRequired,
		MaxBytes: int64(c.AuditMaxSize), Keep: int(c.AuditKeep), Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("audit-log %q (%s): %w", c.AuditLog, c.Source("audit-log"), err)
	}
	return l, nil
}

// happened notes what a master does by itself.
func happened(to *audit.Log) func(master.Happening) {
	return func(h master.Happening) {
		to.Note(audit.Record{Event: h.Event, Member: h.Member, Epoch: h.Epoch, Revision: h.Revision})
	}
}

// auditing is the metrics of an audit log.
type auditing struct{ log *audit.Log }

var (
	auditLinesDesc = prometheus.NewDesc("stout_audit_lines_total",
		"Lines of the audit log that were written, and those that were lost.", []string{"result"}, nil)
	auditDenialsDesc = prometheus.NewDesc("stout_audit_denials_suppressed_total",
		"Denials without a line of their own in the audit log, since there were too many at once.", nil, nil)
	auditFailingDesc = prometheus.NewDesc("stout_audit_failing",
		"1 while the audit log cannot be written.", nil, nil)
)

func (auditing) Describe(to chan<- *prometheus.Desc) {
	to <- auditLinesDesc
	to <- auditDenialsDesc
	to <- auditFailingDesc
}

func (a auditing) Collect(to chan<- prometheus.Metric) {
	if a.log == nil {
		return
	}
	n, failing := a.log.Counts(), 0.0
	if n.Failing {
		failing = 1
	}
	to <- prometheus.MustNewConstMetric(auditLinesDesc, prometheus.CounterValue, float64(n.Written), "written")
	to <- prometheus.MustNewConstMetric(auditLinesDesc, prometheus.CounterValue, float64(n.Lost), "lost")
	to <- prometheus.MustNewConstMetric(auditDenialsDesc, prometheus.CounterValue, float64(n.Suppressed))
	to <- prometheus.MustNewConstMetric(auditFailingDesc, prometheus.GaugeValue, failing)
}
