package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/lockapi"
)

// LargeLag is the lag, in entries, from which on a replica is reported. A
// healthy replica is a few entries behind on a busy cell, and one on an idle
// cell.
const LargeLag = 64

// Finding is a problem of one replica.
type Finding struct {
	ID       string `json:"id"`
	What     string `json:"what"`
	Foreign  bool   // its directory does not belong to the cell
	NoMaster bool   // it answers but does not reach the master
	Command  string `json:"command,omitempty"` // repairs it
}

// ReplaceCommand returns the command that admits a replica's directory, to be
// copied into a shell. It is built here and not taken from the answer, and
// empty if it would not be safe.
func ReplaceCommand(id, directory string) string {
	if !format.IsLiteral(id) || lockapi.ValidateDirectory(directory) != nil {
		return ""
	}
	return "stout member replace " + id + " --directory " + directory
}

// examine finds out what is wrong with unhealthy replicas. It asks each replica
// without a connection to the master, in either direction; without a master, it
// asks all. A replica outside the cell counts as unhealthy.
func (c Collector) examine(ctx context.Context, cell *View) []Finding {
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	newest := LastIndex(cell.Replicas)
	found := make([]Finding, len(cell.Replicas))
	ask.Each(cell.Replicas, func(i int, r lockapi.Replica) {
		if r.Fault != "" {
			found[i] = Finding{ID: r.ID, What: "does not follow the master: " + format.Clean(r.Fault)}
		} else if deaf := isDeaf(cell.Cell, r); !r.Healthy || deaf || !ask.InOffice(cell.Cell) {
			found[i] = c.inquire(ctx, cell.Cell.Cell, r, deaf, cell.silent[r.ID])
		} else if what := c.deadPaths(ctx, cell.Cell, r); what != "" {
			found[i] = Finding{ID: r.ID, What: what}
		}
		if found[i].What == "" && newest-r.AppliedIndex > LargeLag {
			found[i] = Finding{ID: r.ID, What: fmt.Sprintf("is %d entries behind", newest-r.AppliedIndex)}
		}
	})
	found = slices.DeleteFunc(found, func(f Finding) bool { return f.What == "" })
	for i, r := range cell.Replicas {
		cell.Replicas[i].Healthy = r.Healthy && !FindingOf(found, r.ID).Foreign
	}
	return found
}

// isDeaf reports whether a replica that answers does not reach the master in
// office: no contact for a whole term, and no promise, which each round of the
// lease renews.
func isDeaf(cell lockapi.Cell, r lockapi.Replica) bool {
	return ask.InOffice(cell) && r.Healthy && r.ID != cell.Master.ID && r.Promise == nil && r.LastContactMS > cell.Lease.TermMS
}

// deadPaths describes dead connections of a replica that the master reaches:
// from here to it, and from it to other replicas. A replica that is down is
// reported elsewhere.
func (c Collector) deadPaths(ctx context.Context, cell lockapi.Cell, r lockapi.Replica) string {
	var dead []string
	if slices.Contains(c.Servers, strings.TrimRight(r.URL, "/")) {
		if err := c.Admin.Ready(ctx, r.URL); err != nil && !ask.IsRefusal(err) {
			dead = append(dead, fmt.Sprintf("does not answer from here (%s), but the master reaches it", Reason(err, ProbeTimeout)))
		}
	}
	for _, other := range cell.Replicas {
		if other.Healthy && slices.Contains(r.Unreached, other.ID) {
			dead = append(dead, "does not reach "+format.Clean(other.ID)+", but other replicas do: calls forwarded to it fail")
		}
	}
	return strings.Join(dead, "; ")
}

// inquire asks a replica whether it is ready, unless err is known. It reports a
// healthy replica only if it is outside the cell, or does not reach the master.
func (c Collector) inquire(ctx context.Context, cell string, r lockapi.Replica, deaf bool, err error) Finding {
	if err == nil {
		err = c.Ready(ctx, r.URL)
	}
	f := Finding{ID: r.ID}
	refused, answers := errors.AsType[*lockapi.Error](err)
	switch {
	case answers && refused.Command != "":
		f.Foreign, f.What, f.Command = true, OwnReason(refused), ReplaceCommand(r.ID, refused.Directory)
	case deaf && answers: // the master knows it, so it belongs to this cell
		f.NoMaster, f.What = true, fmt.Sprintf("answers but does not reach the master: %s; last contact %s ago", OwnReason(refused), format.MS(r.LastContactMS))
	case r.Healthy:
	case err == nil || answers:
		f.What = c.another(ctx, cell, r)
		switch f.Foreign = f.What != ""; {
		case f.Foreign:
		case err == nil:
			f.What = "answers here, but the master does not reach it"
		default:
			f.What = "answers but is not ready: " + OwnReason(refused)
		}
	default:
		f.What = fmt.Sprintf("does not answer (%s); last seen %s ago", Reason(err, ProbeTimeout), format.MS(r.LastContactMS))
	}
	return f
}

// Ready asks the replica at url whether it is ready.
func (c Collector) Ready(ctx context.Context, url string) error {
	if err := c.MayCall(url); err != nil {
		return err
	}
	return c.Admin.Ready(ctx, url)
}

// another describes a different replica that answers at a replica's address, or
// returns "". Cells of the same name differ by id or, without id, by directory.
func (c Collector) another(ctx context.Context, cell string, r lockapi.Replica) string {
	other := func(what, is string) string {
		return fmt.Sprintf("does not answer: %s %s, answers at its address", what, format.Clean(is))
	}
	if view, err := c.Admin.CellAt(ctx, r.URL); err == nil && view.Cell != cell {
		return other("a replica of another cell,", view.Cell)
	}
	own, err := c.Admin.Replica(ctx, r.URL)
	if err != nil {
		return ""
	}
	if own.ID != r.ID {
		return other("another replica,", own.ID)
	}
	list, err := c.Admin.Members(ctx)
	if err != nil {
		return ""
	}
	if id := c.CellIDAt(ctx, r.URL); id != "" && list.CellID != "" && id != list.CellID {
		return other("a replica of another cell of the same name, with id", id)
	}
	is := func(m lockapi.Member) bool { return m.ID == r.ID }
	its := func(m lockapi.Member) bool { return is(m) && m.Directory == own.Directory }
	if own.Directory == "" || !slices.ContainsFunc(list.Members, is) || slices.ContainsFunc(list.Members, its) {
		return ""
	}
	return other("a replica of another cell of the same name, with directory", own.Directory)
}

// FindingOf returns what was found about a replica, or nothing.
func FindingOf(found []Finding, id string) Finding {
	for _, f := range found {
		if f.ID == id {
			return f
		}
	}
	return Finding{}
}

// LastIndex returns the highest applied index.
func LastIndex(replicas []lockapi.Replica) uint64 {
	var newest uint64
	for _, r := range replicas {
		newest = max(newest, r.AppliedIndex)
	}
	return newest
}

// Endings adds the replicas' certificates that end soon, from their metrics, if
// the cell uses TLS.
func (c Collector) Endings(ctx context.Context, cell lockapi.Cell, found []Finding) []Finding {
	if !UsesTLS(cell) {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	soon := make([]string, len(cell.Replicas))
	ask.Each(cell.Replicas, func(i int, r lockapi.Replica) {
		if r.Healthy {
			soon[i] = strings.Join(c.askEndings(ctx, r.URL), ", and ")
		}
	})
	for i, r := range cell.Replicas {
		if soon[i] == "" {
			continue
		}
		if at := slices.IndexFunc(found, func(f Finding) bool { return f.ID == r.ID }); at >= 0 {
			found[at].What += "; " + soon[i]
		} else {
			found = append(found, Finding{ID: r.ID, What: soon[i]})
		}
	}
	return found
}

// UsesTLS reports whether a replica's API uses TLS.
func UsesTLS(cell lockapi.Cell) bool {
	return slices.ContainsFunc(cell.Replicas, func(r lockapi.Replica) bool { return strings.HasPrefix(r.URL, "https://") })
}

// askEndings asks the replica at url which of its certificates end soon.
func (c Collector) askEndings(ctx context.Context, url string) (soon []string) {
	var metrics ask.Metrics
	if _, err := c.Get(ctx, url, lockapi.RouteMetrics, &metrics); err != nil {
		return nil
	}
	metrics.Each("stout_certificate_expiry_timestamp_seconds", func(label func(string) string, unix float64) {
		if ends := time.Unix(int64(unix), 0); certs.EndsSoon(ends) {
			part := map[string]string{"ca": "the last CA"}[label("part")]
			of := map[string]string{"api": "its API", "raft": "its connections to the other replicas"}[label("use")]
			soon = append(soon, fmt.Sprintf("%s of %s %s", cmp.Or(part, "the certificate"), of, When(ends)))
		}
	})
	return soon
}

// When describes the end of something, or that it is over.
func When(ends time.Time) string {
	on := ends.UTC().Format("2006-01-02 15:04 MST")
	if left := time.Until(ends); left > 0 {
		return fmt.Sprintf("ends in %s, on %s", format.Human(left), on)
	}
	return "has ended, on " + on
}
