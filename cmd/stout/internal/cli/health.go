package cli

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

// largeLag is the lag, in entries, from which on a replica is reported. A
// healthy replica is a few entries behind on a busy cell, and one on an idle
// cell.
const largeLag = 64

// finding is a problem of one replica.
type finding struct {
	ID      string `json:"id"`
	What    string `json:"what"`
	outside bool   // its directory does not belong to the cell
	deaf    bool   // it answers but does not reach the master
	Command string `json:"command,omitempty"` // repairs it
}

// replaceCommand returns the command that admits a replica's directory, to be
// copied into a shell. It is built here and not taken from the answer, and
// empty if it would not be safe.
func replaceCommand(id, directory string) string {
	if !format.IsLiteral(id) || lockapi.ValidateDirectory(directory) != nil {
		return ""
	}
	return "stout member replace " + id + " --directory " + directory
}

// examine finds out what is wrong with unhealthy replicas. It asks each replica
// without a connection to the master, in either direction; without a master, it
// asks all. A replica outside the cell counts as unhealthy.
func (a *app) examine(ctx context.Context, cell *picture) []finding {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	newest := newestIndex(cell.Replicas)
	found := make([]finding, len(cell.Replicas))
	ask.Each(cell.Replicas, func(i int, r lockapi.Replica) {
		if r.Fault != "" {
			found[i] = finding{ID: r.ID, What: "does not follow the master: " + format.Clean(r.Fault)}
		} else if deaf := isDeaf(cell.Cell, r); !r.Healthy || deaf || !ask.InOffice(cell.Cell) {
			found[i] = a.inquire(ctx, cell.Cell.Cell, r, deaf, cell.silent[r.ID])
		} else if what := a.deadPaths(ctx, cell.Cell, r); what != "" {
			found[i] = finding{ID: r.ID, What: what}
		}
		if found[i].What == "" && newest-r.AppliedIndex > largeLag {
			found[i] = finding{ID: r.ID, What: fmt.Sprintf("is %d entries behind", newest-r.AppliedIndex)}
		}
	})
	found = slices.DeleteFunc(found, func(f finding) bool { return f.What == "" })
	for i, r := range cell.Replicas {
		cell.Replicas[i].Healthy = r.Healthy && !findingOf(found, r.ID).outside
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
func (a *app) deadPaths(ctx context.Context, cell lockapi.Cell, r lockapi.Replica) string {
	var dead []string
	if slices.Contains(a.opts.servers, strings.TrimRight(r.URL, "/")) {
		if err := a.admin.Ready(ctx, r.URL); err != nil && !ask.IsRefusal(err) {
			dead = append(dead, fmt.Sprintf("does not answer from here (%s), but the master reaches it", reason(err, probeTimeout)))
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
// healthy replica only if it is outside the cell or deaf.
func (a *app) inquire(ctx context.Context, cell string, r lockapi.Replica, deaf bool, err error) finding {
	if err == nil {
		err = a.ready(ctx, r.URL)
	}
	f := finding{ID: r.ID}
	refused, answers := errors.AsType[*lockapi.Error](err)
	switch {
	case answers && refused.Command != "":
		f.outside, f.What, f.Command = true, ownReason(refused), replaceCommand(r.ID, refused.Directory)
	case deaf && answers: // the master knows it, so it belongs to this cell
		f.deaf, f.What = true, fmt.Sprintf("answers but does not reach the master: %s; last contact %s ago", ownReason(refused), format.MS(r.LastContactMS))
	case r.Healthy:
	case err == nil || answers:
		f.What = a.another(ctx, cell, r)
		switch f.outside = f.What != ""; {
		case f.outside:
		case err == nil:
			f.What = "answers here, but the master does not reach it"
		default:
			f.What = "answers but is not ready: " + ownReason(refused)
		}
	default:
		f.What = fmt.Sprintf("does not answer (%s); last seen %s ago", reason(err, probeTimeout), format.MS(r.LastContactMS))
	}
	return f
}

func (a *app) ready(ctx context.Context, url string) error {
	if err := a.mayCall(url); err != nil {
		return err
	}
	return a.admin.Ready(ctx, url)
}

// another describes a different replica that answers at a replica's address, or
// returns "". Cells of the same name differ by id or, without id, by directory.
func (a *app) another(ctx context.Context, cell string, r lockapi.Replica) string {
	other := func(what, is string) string {
		return fmt.Sprintf("does not answer: %s %s, answers at its address", what, format.Clean(is))
	}
	if view, err := a.admin.CellAt(ctx, r.URL); err == nil && view.Cell != cell {
		return other("a replica of another cell,", view.Cell)
	}
	own, err := a.admin.Replica(ctx, r.URL)
	if err != nil {
		return ""
	}
	if own.ID != r.ID {
		return other("another replica,", own.ID)
	}
	list, err := a.admin.Members(ctx)
	if err != nil {
		return ""
	}
	if id := a.cellIDAt(ctx, r.URL); id != "" && list.CellID != "" && id != list.CellID {
		return other("a replica of another cell of the same name, with id", id)
	}
	its := func(m lockapi.Member) bool { return m.ID == r.ID && m.Directory == own.Directory }
	if own.Directory == "" || present(list, r.ID) == nil || slices.ContainsFunc(list.Members, its) {
		return ""
	}
	return other("a replica of another cell of the same name, with directory", own.Directory)
}

// findingOf returns what was found about a replica, or nothing.
func findingOf(found []finding, id string) finding {
	for _, f := range found {
		if f.ID == id {
			return f
		}
	}
	return finding{}
}

func newestIndex(replicas []lockapi.Replica) uint64 {
	var newest uint64
	for _, r := range replicas {
		newest = max(newest, r.AppliedIndex)
	}
	return newest
}

// mending introduces the repair command, which needs a master.
func mending(cell lockapi.Cell) string {
	if ask.InOffice(cell) {
		return "repair it: "
	}
	return "repair it when the cell has a master: "
}

func (a *app) showFindings(cell lockapi.Cell, found []finding) {
	if len(found) == 0 {
		return
	}
	a.ui.printf("\n")
	for _, f := range found {
		a.ui.hanging("", a.ui.out.Bold(format.Clean(f.ID)), f.What)
		if f.Command != "" {
			a.ui.indented(mending(cell) + f.Command)
		}
	}
}

func (a *app) noteFindings(cell lockapi.Cell, found []finding) {
	for _, f := range found {
		if a.ui.note("%s %s", f.ID, f.What); f.Command != "" {
			a.ui.note("%s%s", mending(cell), f.Command)
		}
	}
}

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
	if _, err := a.asker().Get(ctx, url, lockapi.RouteMetrics, &metrics); err != nil {
		return nil
	}
	metrics.Each("stout_certificate_expiry_timestamp_seconds", func(label func(string) string, unix float64) {
		if ends := time.Unix(int64(unix), 0); certs.EndsSoon(ends) {
			part := map[string]string{"ca": "the last CA"}[label("part")]
			of := map[string]string{"api": "its API", "raft": "its connections to the other replicas"}[label("use")]
			soon = append(soon, fmt.Sprintf("%s of %s %s", cmp.Or(part, "the certificate"), of, when(ends)))
		}
	})
	return soon
}

// when describes the end of something, or that it is over.
func when(ends time.Time) string {
	on := ends.UTC().Format("2006-01-02 15:04 MST")
	if left := time.Until(ends); left > 0 {
		return fmt.Sprintf("ends in %s, on %s", format.Human(left), on)
	}
	return "has ended, on " + on
}
