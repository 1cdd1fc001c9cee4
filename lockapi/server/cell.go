package server

import (
	"context"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
)

// keepContact polls the other replicas until the server drains.
func (s *Server) keepContact() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tick := time.NewTicker(s.opts.ContactEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stopping:
			return
		case <-tick.C:
			if at := s.attached.Load(); at != nil {
				view := at.View()
				s.others.Forget(view.Cell.Replicas)
				s.others.Look(ctx, at.way, view.Own.ID, view.Cell.Replicas)
			}
		}
	}
}

// readCell answers from the master's view if the master answers quickly,
// otherwise from this replica's own.
func readCell(x *exchange) error {
	follow, err := x.mayForward()
	if err != nil {
		return err
	}
	view := x.master.View()
	cell := view.Cell
	if at := x.master.Known(); follow && at.ID != "" && !at.Self {
		if got, ok := x.masterCell(at); ok {
			x.pass(got)
			return nil
		}
		depose(&cell)
	}
	x.others.Look(x.ctx(), x.way, view.Own.ID, cell.Replicas)
	for i := range cell.Replicas {
		if cell.Replicas[i].ID == view.Own.ID {
			cell.Replicas[i].Unreached = x.others.Unreached()
		}
	}
	return x.reply(http.StatusOK, cell)
}

// depose removes the master from a view, because it does not answer.
func depose(cell *lockapi.Cell) {
	cell.Master = nil
	for i := range cell.Replicas {
		if cell.Replicas[i].Role == lockapi.RoleMaster {
			cell.Replicas[i].Role = lockapi.RoleReplica
		}
	}
}

// masterCell requests the master's view of the cell.
func (x *exchange) masterCell(at Location) (answer, bool) {
	ctx, cancel := context.WithTimeout(x.ctx(), x.opts.CellTimeout)
	defer cancel()
	got, _, err := x.send(ctx, at.ID)
	return got, err == nil && got.status == http.StatusOK
}

// caughtUpWithin is how many entries a replica may lag behind its master and
// still count as caught up.
const caughtUpWithin = 64

// caughtUp returns nil if this replica has applied the master's entries, up to
// caughtUpWithin. It asks the master: a replica that was just started cannot
// know how far it is behind.
func (x *exchange) caughtUp(at Location) error {
	if at.ID == "" {
		return lockapi.Errorf(lockapi.CodeNoMaster, "this replica knows no master")
	}
	ctx, cancel := context.WithTimeout(x.ctx(), x.opts.ProbeTimeout)
	defer cancel()
	master, err := peers.AskReplica(ctx, x.way, at.ID)
	switch own := x.master.View().Own.AppliedIndex; {
	case err != nil:
		return lockapi.Errorf(lockapi.CodeNoMaster, "master %s did not report its applied entry: %v", at.ID, err)
	case master.ID != at.ID || master.Role != lockapi.RoleMaster:
		return lockapi.Errorf(lockapi.CodeNoMaster, "%s is no longer the master", at.ID)
	case own+caughtUpWithin < master.AppliedIndex:
		return lockapi.Errorf(lockapi.CodeNoMaster, "this replica has applied entry %d, but master %s is at entry %d", own, at.ID, master.AppliedIndex)
	}
	return nil
}
