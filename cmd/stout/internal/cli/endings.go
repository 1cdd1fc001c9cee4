package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/lockapi"
)

// endings adds certificates that end soon: from the replicas' metrics, if the
// cell uses TLS, and our own.
func (a *app) endings(ctx context.Context, cell lockapi.Cell, found []finding) []finding {
	if !slices.ContainsFunc(cell.Replicas, func(r lockapi.Replica) bool { return strings.HasPrefix(r.URL, "https://") }) {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	soon := make([]string, len(cell.Replicas))
	ask.Each(cell.Replicas, func(i int, r lockapi.Replica) {
		if r.Healthy {
			soon[i] = strings.Join(a.askEndings(ctx, r.URL), ", and ")
		}
	})
	for i, r := range cell.Replicas {
		if soon[i] == "" {
			continue
		}
		if at := slices.IndexFunc(found, func(f finding) bool { return f.ID == r.ID }); at >= 0 {
			found[at].What += "; " + soon[i]
		} else {
			found = append(found, finding{ID: r.ID, What: soon[i]})
		}
	}
	if a.certs != nil {
		certificate, cas := a.certs.Ends()
		if certs.EndsSoon(certificate) {
			a.ui.note("our certificate, %s, %s", a.opts.files.Cert, when(certificate))
		}
		if certs.EndsSoon(cas) {
			a.ui.note("the last CA in %s %s", a.opts.files.CA, when(cas))
		}
	}
	return found
}

// askEndings asks the replica at url which of its certificates end soon.
func (a *app) askEndings(ctx context.Context, url string) (soon []string) {
	var metrics ask.Metrics
	asker := a.asker()
	if _, err := asker.Get(ctx, url, lockapi.RouteMetrics, &metrics); err != nil {
		return nil
	}
	metrics.Each("stout_certificate_expiry_timestamp_seconds", func(label func(string) string, unix float64) {
		if ends := time.Unix(int64(unix), 0); certs.EndsSoon(ends) {
			soon = append(soon, certificateName(label("part"), label("use"))+" "+when(ends))
		}
	})
	return soon
}

func certificateName(part, use string) string {
	of := map[string]string{"api": "its API", "raft": "its connections to the other replicas"}[use]
	if part == "ca" {
		return "the last CA of " + of
	}
	return "the certificate of " + of
}

// when describes the end of something, or that it is over.
func when(ends time.Time) string {
	on := ends.UTC().Format("2006-01-02 15:04 MST")
	if left := time.Until(ends); left > 0 {
		return fmt.Sprintf("ends in %s, on %s", human(left), on)
	}
	return "has ended, on " + on
}
