package server

import (
	"context"
	"errors"
	"fmt"
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
		ctx, cancel := context.WithTimeout(x.ctx(), x.opts.CellTimeout)
		defer cancel()
		if got, _, err := x.send(ctx, at.ID); err == nil && got.Status == http.StatusOK {
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

// answerJoin answers a replica that wants to join with the Raft addresses of
// the members. Any caller that knows the cell's name may also learn them at
// those ports (see package peerconn).
func answerJoin(x *exchange) error {
	view := x.master.View()
	x.noted.bounded = true
	if name := x.query[paramCell.name]; name != view.Cell.Cell {
		x.holdBack()
		return lockapi.Errorf(lockapi.CodeNotFound, "this replica does not belong to cell %q; its log has the name of its cell", lockapi.Clip(name))
	}
	out := lockapi.Joining{CellID: view.CellID, Replicas: []lockapi.Joined{}}
	for _, r := range view.Cell.Replicas {
		out.Replicas = append(out.Replicas, lockapi.Joined{ID: r.ID, RaftAddr: r.RaftAddr})
	}
	return x.reply(http.StatusOK, out)
}

// readReplica answers with this replica's own entry, without calls to others.
func readReplica(x *exchange) error {
	if x.master == nil {
		return x.reply(http.StatusOK, x.opts.Standby().Replica)
	}
	own := x.master.View().Own
	own.Unreached = x.others.Unreached()
	if x.peer {
		x.others.ShowClock(x.c.Writer.Header())
	}
	return x.reply(http.StatusOK, own)
}

func readOpenAPI(x *exchange) error {
	x.write(http.StatusOK, typeYAML, lockapi.OpenAPI())
	return nil
}

type probeAnswer struct {
	Status    string `json:"status"`
	Directory string `json:"directory,omitempty"` // of a ready replica
	Log       string `json:"log,omitempty"`       // a fault of the replica's log, see logState
}

// logState reports that the reader of the replica's log is blocked; empty if it
// is not. The replica serves calls in both cases.
func (x *exchange) logState() string {
	if x.opts.LogBlocked != nil {
		if d := x.opts.LogBlocked().Truncate(time.Second); d > 0 {
			return fmt.Sprintf("blocked for %v", d)
		}
	}
	return ""
}

func live(x *exchange) error {
	if err := x.hangs(); err != nil {
		return err
	}
	return x.reply(http.StatusOK, probeAnswer{Status: "live"})
}

// hangs returns a reason of the replica's own why it cannot serve; nil if it
// can.
func (x *exchange) hangs() error {
	if x.master == nil {
		return nil
	}
	if err := x.master.Hangs(); err != nil {
		return lockapi.Errorf(lockapi.CodeNoMaster, "%v", err)
	}
	return nil
}

func ready(x *exchange) error {
	if x.master == nil {
		return x.standbyProblem()
	}
	directory, reason := x.attached.Load().directory, x.hangs()
	if reason == nil {
		reason = x.master.View().Ready
	}
	if reason == nil {
		if at := x.master.Known(); !at.Self {
			reason = x.caughtUp(at)
		}
	}
	if reason == nil {
		return x.reply(http.StatusOK, probeAnswer{"ready", directory, x.logState()})
	}
	e := new(lockapi.Error)
	if !errors.As(reason, &e) || e.Code.Status() != http.StatusServiceUnavailable {
		e = lockapi.Errorf(lockapi.CodeNoMaster, "this replica is not ready: %v", reason)
	}
	failed := *e
	failed.Directory = directory
	return &failed
}

func readMetrics(x *exchange) error {
	x.stamp(x.c.Writer.Header())
	x.identify()
	x.metrics.page.ServeHTTP(x.c.Writer, x.c.Request)
	return nil
}
