package server

import (
	"context"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
)

// keepContact asks the others for their state until the server drains.
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

// readCell answers from the master's view where there is a master that answers
// quickly, and from this replica's own otherwise.
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

// depose takes the master out of a view: the one that it names does not answer.
func depose(cell *lockapi.Cell) {
	cell.Master = nil
	for i := range cell.Replicas {
		if cell.Replicas[i].Role == lockapi.RoleMaster {
			cell.Replicas[i].Role = lockapi.RoleReplica
		}
	}
}

// masterCell asks the master for its view of the cell.
func (x *exchange) masterCell(at Location) (answer, bool) {
	ctx, cancel := context.WithTimeout(x.ctx(), x.opts.CellTimeout)
	defer cancel()
	got, _, err := x.send(ctx, at.ID)
	return got, err == nil && got.status == http.StatusOK
}

// caughtUpWithin is how many entries a replica may lag behind its master and
// still count as caught up.
const caughtUpWithin = 64

// caughtUp is nil when this replica has applied what the master has. The master
// is asked: nobody else knows how far a replica is behind that was just
// started.
func (x *exchange) caughtUp(at Location) error {
	if at.ID == "" {
		return lockapi.Errorf(lockapi.CodeNoMaster, "this replica knows no master")
	}
	ctx, cancel := context.WithTimeout(x.ctx(), x.opts.ProbeTimeout)
	defer cancel()
	master, err := peers.AskReplica(ctx, x.way, at.ID)
	switch own := x.master.View().Own.AppliedIndex; {
	case err != nil:
		return lockapi.Errorf(lockapi.CodeNoMaster, "master %s cannot be asked how far it is: %v", at.ID, err)
	case master.ID != at.ID || master.Role != lockapi.RoleMaster:
		return lockapi.Errorf(lockapi.CodeNoMaster, "%s is not the master any more", at.ID)
	case own+caughtUpWithin < master.AppliedIndex:
		return lockapi.Errorf(lockapi.CodeNoMaster, "this replica has applied entry %d, and master %s is at %d", own, at.ID, master.AppliedIndex)
	}
	return nil
}
