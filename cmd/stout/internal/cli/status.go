package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/lockapi"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the master, its lease, and every replica",
		Long: `Shows who is master, for which epoch and how long its lease still runs, and per
replica its role, health, applied index and how far that is behind, to whom it
has promised not to let another master act, and when it was last heard of.

Exit codes: 0 a master holds its lease, 2 wrong usage, 3 the cell has no master,
4 no replica can be reached.`,
		SuggestFor:        []string{"cell", "health", "info", "replicas"},
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context()) },
	}
}

func (a *app) status(ctx context.Context) error {
	ctx, cancel := a.call(ctx)
	defer cancel()
	cell, err := a.cell(ctx)
	if err != nil {
		return err
	}
	if a.ui.json {
		err = a.ui.object(cell)
	} else {
		a.showCell(cell)
	}
	if err != nil {
		return err
	}
	return inOffice(cell)
}

// cell reads the state of the cell, as its master sees it; where there is none,
// as every replica does.
func (a *app) cell(ctx context.Context) (lockapi.Cell, error) {
	cell, err := a.client.Cell(ctx)
	if err == nil && cell.Master == nil {
		a.survey(ctx, &cell)
	}
	return cell, err
}

// inOffice is the error of a cell that has no master, or none that is seen to be
// in office.
func inOffice(cell lockapi.Cell) error {
	if cell.Master != nil && cell.Lease.Held {
		return nil
	}
	if cell.Master != nil {
		return (&failure{code: exitNoMaster, message: fmt.Sprintf("%s is named as master, and is not seen to hold its lease", clean(cell.Master.ID))}).
			hint("it may just have been elected, or may not be reachable from here at %s", clean(cell.Master.URL))
	}
	up := 0
	for _, r := range cell.Replicas {
		if r.Healthy {
			up++
		}
	}
	return (&failure{code: exitNoMaster, message: "the cell has no master: no lock can be taken or released now"}).
		hint("%d of %s answer; a master needs %d that see each other", up, plural(len(cell.Replicas), "replica"), len(cell.Replicas)/2+1)
}

// survey completes the picture of a cell without a master, of which one replica
// knows only itself: it asks each for its own state.
func (a *app) survey(ctx context.Context, cell *lockapi.Cell) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	urls := make([]string, len(cell.Replicas))
	for i, r := range cell.Replicas {
		urls[i] = r.URL
	}
	own, failed := a.probe(ctx, urls)
	for i := range cell.Replicas {
		if failed[i] != nil || own[i].ID != cell.Replicas[i].ID {
			cell.Replicas[i].Healthy = false
			continue
		}
		cell.Replicas[i] = own[i]
	}
}

func (a *app) showCell(cell lockapi.Cell) {
	p := a.ui.out
	master, lease := p.fail.Render("none"), p.fail.Render("not held")
	if m := cell.Master; m != nil {
		master = p.good.Render(clean(m.ID)) + "  " + clean(m.URL)
	}
	if l := cell.Lease; l.Held {
		lease = fmt.Sprintf("%s, %s of %s left, renewed %s ago",
			p.good.Render("held"), millis(l.RemainingMS), millis(l.TermMS), millis(l.RenewedAgoMS))
	}
	pairs := [][2]string{
		{"cell", clean(cell.Cell)}, {"master", master},
		{"epoch", fmt.Sprint(cell.Epoch)}, {"lease", lease},
	}
	if cell.Sessions != nil && cell.Locks != nil && cell.Waiters != nil {
		pairs = append(pairs, [2]string{"serving", fmt.Sprintf("%s, %s, %s",
			plural(*cell.Sessions, "session"), plural(*cell.Locks, "lock"), plural(*cell.Waiters, "waiter"))})
	}
	a.ui.pairs(pairs...)
	a.ui.printf("\n")
	a.ui.table([]column{
		left("REPLICA"), left("ROLE"), left("HEALTH"), right("APPLIED"), right("LAG"),
		left("PROMISE"), right("LAST CONTACT"), left("URL"),
	}, a.replicaRows(cell.Replicas))
}

// largeLag is from where on a replica's lag is worth a look: a healthy one is a
// few entries behind while the cell is busy, and one on an idle cell.
const largeLag = 64

func (a *app) replicaRows(replicas []lockapi.Replica) [][]string {
	var newest uint64
	for _, r := range replicas {
		newest = max(newest, r.AppliedIndex)
	}
	rows := make([][]string, 0, len(replicas))
	for _, r := range replicas {
		rows = append(rows, a.replicaRow(r, newest))
	}
	return rows
}

// replicaRow shows of a replica that is down only what was last known and does
// not age: how far it is behind now, and what it has promised, nobody knows.
func (a *app) replicaRow(r lockapi.Replica, newest uint64) []string {
	p := a.ui.out
	role, health := p.plain.Render(clean(r.Role)), p.fail.Render("DOWN")
	applied, lag, promise, contact := "-", "-", "-", "-"
	if r.Role == lockapi.RoleMaster {
		role = p.good.Render(r.Role)
	} else {
		contact = millis(r.LastContactMS)
	}
	if r.Healthy || r.AppliedIndex > 0 {
		applied = fmt.Sprint(r.AppliedIndex)
	}
	if r.Healthy {
		health, lag = p.good.Render("ok"), fmt.Sprint(newest-r.AppliedIndex)
		if newest-r.AppliedIndex > largeLag {
			lag = p.warn.Render(lag)
		}
		if r.Promise != nil {
			promise = fmt.Sprintf("%s, %s", clean(r.Promise.To), millis(r.Promise.RemainingMS))
		}
	}
	return []string{clean(r.ID), role, health, applied, lag, promise, contact, clean(r.URL)}
}
