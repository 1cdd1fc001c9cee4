package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/lockapi"
)

// largeLag is from where on a replica's lag is worth a look: a healthy one is a
// few entries behind while the cell is busy, and one on an idle cell.
const largeLag = 64

// finding is what is wrong with one replica.
type finding struct {
	ID      string `json:"id"`
	What    string `json:"what"`
	outside bool   // it answers with a directory that does not belong to the cell
	deaf    bool   // it answers, and hears no master while there is one
	Command string `json:"command,omitempty"` // repairs it
}

// replaceCommand is the command that admits a replica's directory, to be copied
// into a shell. It is made here, not taken from whoever answers at the
// replica's address, and empty where that would not be one.
func replaceCommand(id, directory string) string {
	if !plainWord(id) || lockapi.ValidateDirectory(directory) != nil {
		return ""
	}
	return "stout member replace " + id + " --directory " + directory
}

// examine finds out what is wrong with the replicas that are not well, by
// asking those themselves that the master does not hear, or that do not hear it;
// without a master, all.
// A replica that does not belong to the cell does not count as well, whatever
// it says.
func (a *app) examine(ctx context.Context, cell *picture) []finding {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	newest := newestIndex(cell.Replicas)
	found := make([]finding, len(cell.Replicas))
	ask.Each(cell.Replicas, func(i int, r lockapi.Replica) {
		if r.Fault != "" {
			found[i] = finding{ID: r.ID, What: "does not follow the master: " + clean(r.Fault)}
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
		cell.Replicas[i].Healthy = r.Healthy && !outsider(found, r.ID)
	}
	return found
}

// isDeaf says whether a replica that answers hears nothing of the master in office:
// it has heard from none for a whole term, and holds no promise, which each round of
// the lease renews.
func isDeaf(cell lockapi.Cell, r lockapi.Replica) bool {
	return ask.InOffice(cell) && r.Healthy && r.ID != cell.Master.ID && r.Promise == nil && r.LastContactMS > cell.Lease.TermMS
}

// deadPaths says of a replica that the master hears which paths to it, from here, and
// from it to others are dead. What is down itself is reported as that.
func (a *app) deadPaths(ctx context.Context, cell lockapi.Cell, r lockapi.Replica) string {
	var dead []string
	if slices.Contains(a.opts.servers, strings.TrimRight(r.URL, "/")) {
		if err := a.client.Ready(ctx, r.URL); err != nil && !ask.IsRefusal(err) {
			dead = append(dead, fmt.Sprintf("does not answer from here (%s), and the master hears it", reason(err, probeTimeout)))
		}
	}
	for _, other := range cell.Replicas {
		if other.Healthy && slices.Contains(r.Unreached, other.ID) {
			dead = append(dead, "does not reach "+clean(other.ID)+", which others do: calls that it forwards do not arrive there")
		}
	}
	return strings.Join(dead, "; ")
}

// inquire asks a replica whether it is ready, unless it is known why it does
// not answer. Of one that is well nothing is reported but that it does not
// belong to the cell, or is deaf and says so.
func (a *app) inquire(ctx context.Context, cell string, r lockapi.Replica, deaf bool, err error) finding {
	if err == nil {
		err = a.ready(ctx, r.URL)
	}
	f := finding{ID: r.ID}
	refused, answers := errors.AsType[*lockapi.Error](err)
	switch {
	case answers && refused.Command != "":
		f.outside, f.What, f.Command = true, saying(refused), replaceCommand(r.ID, refused.Directory)
	case deaf && answers: // and is known to the master: it is of this cell
		f.deaf, f.What = true, fmt.Sprintf("answers, and hears no master: %s; its last contact was %s ago", saying(refused), millis(r.LastContactMS))
	case r.Healthy:
	case err == nil || answers:
		f.What = a.another(ctx, cell, r)
		switch f.outside = f.What != ""; {
		case f.outside:
		case err == nil:
			f.What = "is not heard by the master, and answers here"
		default:
			f.What = "answers, and is not ready: " + saying(refused)
		}
	default:
		f.What = fmt.Sprintf("does not answer (%s); last heard of %s ago", reason(err, probeTimeout), millis(r.LastContactMS))
	}
	return f
}

// ready asks a replica whether it is ready.
func (a *app) ready(ctx context.Context, url string) error {
	if err := a.mayCall(url); err != nil {
		return err
	}
	return a.client.Ready(ctx, url)
}

// another says who else answers at a replica's address; empty where nobody else
// is seen to. Two cells may have one name: then their ids tell them apart, and the
// directory, where the id is not told.
func (a *app) another(ctx context.Context, cell string, r lockapi.Replica) string {
	other := func(what, is string) string {
		return fmt.Sprintf("does not answer: %s %s, answers at its address", what, clean(is))
	}
	if view, err := a.client.CellAt(ctx, r.URL); err == nil && view.Cell != cell {
		return other("a replica of another cell,", view.Cell)
	}
	own, err := a.client.Replica(ctx, r.URL)
	if err != nil {
		return ""
	}
	if own.ID != r.ID {
		return other("another replica,", own.ID)
	}
	list, err := a.client.Members(ctx)
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

// outsider says whether a replica was found not to belong to the cell.
func outsider(found []finding, id string) bool {
	return slices.ContainsFunc(found, func(f finding) bool { return f.ID == id && f.outside })
}

// isDeafIn says whether a replica was found to hear no master.
func isDeafIn(found []finding, id string) bool {
	return slices.ContainsFunc(found, func(f finding) bool { return f.ID == id && f.deaf })
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
	return "repair it, once the cell has a master: "
}

func (a *app) showFindings(cell lockapi.Cell, found []finding) {
	if len(found) == 0 {
		return
	}
	a.ui.printf("\n")
	for _, f := range found {
		a.ui.paragraph(clean(f.ID), f.What)
		if f.Command != "" {
			a.ui.paragraph("", mending(cell)+f.Command)
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
