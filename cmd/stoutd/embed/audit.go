package embed

import (
	"cmp"
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/internal/audit"
	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/master"
)

// openAudit opens the audit log; nil if the settings have none.
func openAudit(c *config.Config, log zerolog.Logger) (*audit.Log, error) {
	if c.AuditLog == "" {
		return nil, nil
	}
	l, err := audit.Open(audit.Options{
		Path: c.AuditLog, Stdout: cmp.Or(c.Stdout, io.Writer(os.Stdout)), Required: c.AuditRequired,
		MaxBytes: int64(c.AuditMaxSize), Keep: int(c.AuditKeep), Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("audit-log %q (%s): %w", c.AuditLog, c.Source("audit-log"), err)
	}
	return l, nil
}

// happened returns a function that records a master's own actions in the audit log.
func happened(to *audit.Log) func(master.Notification) {
	return func(h master.Notification) {
		to.Note(audit.Record{Event: h.Event, Member: h.Member, Epoch: h.Epoch, Revision: h.Revision})
	}
}

func auditMetrics(set *metric.Set, l *audit.Log) {
	if l == nil {
		return
	}
	set.Counters("stout_audit_lines_total", "Lines of the audit log, written and lost.", []string{"result"}, func(show metric.Show) {
		n := l.Counts()
		show(float64(n.Written), "written")
		show(float64(n.Lost), "lost")
	})
	set.Counter("stout_audit_denials_suppressed_total", "Denials without their own line in the audit log, because there were too many at once.", func() uint64 { return l.Counts().Suppressed })
	set.Gauge("stout_audit_failing", "1 while the audit log cannot be written.", func() float64 { return metric.If(l.Counts().Failing) })
}
