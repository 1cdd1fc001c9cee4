package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/lockapi"
)

// mostMetrics bounds what is read of a replica's metrics.
const mostMetrics = 4 << 20

// endings adds to what was found the certificates that end soon: those that
// the replicas tell of in their metrics, where the cell speaks TLS, and our own.
func (a *app) endings(ctx context.Context, cell lockapi.Cell, found []finding) []finding {
	if !slices.ContainsFunc(cell.Replicas, func(r lockapi.Replica) bool { return strings.HasPrefix(r.URL, "https://") }) {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	said := make([]string, len(cell.Replicas))
	each(cell.Replicas, func(i int, r lockapi.Replica) {
		if r.Healthy {
			said[i] = strings.Join(a.askEndings(ctx, r.URL), ", and ")
		}
	})
	for i, r := range cell.Replicas {
		if said[i] == "" {
			continue
		}
		if at := slices.IndexFunc(found, func(f finding) bool { return f.id == r.ID }); at >= 0 {
			found[at].what += "; " + said[i]
		} else {
			found = append(found, finding{id: r.ID, what: said[i]})
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

// expiry is a line of a replica's metrics.
var expiry = regexp.MustCompile(`^stout_certificate_expiry_timestamp_seconds\{part="(ca|certificate)",use="(api|raft)"\} (\S+)$`)

// askEndings asks the replica at url which of its certificates end soon. One
// that does not tell is not asked again.
func (a *app) askEndings(ctx context.Context, url string) (said []string) {
	resp, err := a.call(ctx, url, lockapi.RouteMetrics)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, mostMetrics))
	for lines.Scan() {
		m := expiry.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		unix, err := strconv.ParseFloat(m[3], 64)
		if ends := time.Unix(int64(unix), 0); err == nil && certs.EndsSoon(ends) {
			said = append(said, whose(m[1], m[2])+" "+when(ends))
		}
	}
	return said
}

func whose(part, use string) string {
	of := map[string]string{"api": "its API", "raft": "its connections to the other replicas"}[use]
	if part == "ca" {
		return "the last CA of " + of
	}
	return "the certificate of " + of
}

// when says when something ends, or has ended.
func when(ends time.Time) string {
	on := ends.UTC().Format("2006-01-02 15:04 MST")
	if left := time.Until(ends); left > 0 {
		return fmt.Sprintf("ends in %s, on %s", human(left), on)
	}
	return "has ended, on " + on
}
