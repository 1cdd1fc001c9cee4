package server

import (
	"context"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// Location says where the master is.
type Location = master.Location

var _ Master = (*master.Master)(nil)

// Master is what the server needs of the replica that it runs in, master or
// not. Its methods are safe for concurrent use. Every error they return is a
// *lockapi.Error; requests given to them have passed their Validate.
type Master interface {
	Locator
	Office
	EventService
	Observer
}

// Office serves calls.
type Office interface {
	// Do serves a call: see master.Master.
	Do(ctx context.Context, by *master.Caller, stale bool, c lockapi.Call) (any, master.Outcome, error)
	// Heavy reports whether the answer to a call takes milliseconds of CPU to make. It
	// never blocks.
	Heavy(r *master.Row, c lockapi.Call) bool
	// Judge judges a call that this replica answers itself, by its own state.
	Judge(by *master.Caller) error
}

// Locator finds the master.
type Locator interface {
	// Known is what this replica knows now. It never blocks while Hangs is nil.
	Known() Location
	// Hangs is why this replica cannot serve, for a reason of its own; nil while it
	// can. It never blocks.
	Hangs() error
	// Locate waits a bounded time for a master to be known; no_master if none is.
	Locate(ctx context.Context) (Location, error)
}

// EventService is the cell's events, of this replica's own log. It never blocks, and
// needs no master but for the linearizable Revision, and to have caught up with one.
type EventService interface {
	// Revision is the present one.
	Revision(ctx context.Context, r *master.Read) (uint64, error)
	// WatchEvents reads those after a revision, and wakes its reader. The error is
	// no_master where the replica does not answer by its own state.
	WatchEvents(f master.EventFilter) (master.EventWatch, error)
}

// Observer tells of the cell and its replicas, and hands mastership over.
type Observer interface {
	// CellID is the cell's id, and Directory that of this replica's data
	// directory.
	CellID() string
	Directory() string
	// Cell is this replica's own view: every replica with id, url, raft_addr and
	// role, its own entry complete; lease and counts only while in office.
	Cell() lockapi.Cell
	// Replica is this replica's own entry, with version and uptime_ms.
	Replica() lockapi.Replica
	// Vitals are the figures that metrics show.
	Vitals() master.Vitals
	// Quotas is how far each quota is used up.
	Quotas() []master.QuotaUse
	// Backup is a backup of the cell as of now; no_master on a replica that is not
	// the master.
	Backup(ctx context.Context, r *master.Read) (master.Backup, error)
	// Ready is nil while this replica is the master, or hears of one and answers stale
	// reads; else the reason why it is not ready.
	Ready() error
}
