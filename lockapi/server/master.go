package server

import (
	"context"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
	"github.com/stoutlock/stout/master"
)

// Location is the location of the master.
type Location = master.Location

// Links are a member's connections to the others: see package peers.
type Links = peers.Links

var _ Master = (*master.Master)(nil)

// Master is the server's interface to its replica, master or not. Its methods
// are safe for concurrent use. All errors are *lockapi.Error, but for master.ErrParked
// of Do. Calls passed to it have been validated.
type Master interface {
	// Do serves a call: see master.Master.
	Do(ctx context.Context, by *master.Caller, stale bool, c lockapi.Call) (any, master.Outcome, error)
	// BoundsCalls reports whether any quota applies to calls.
	BoundsCalls() bool
	// AdmitCall counts a call against its caller's calls per second: see
	// master.Master.
	AdmitCall(by *master.Caller, frees bool) (master.Backoff, error)
	// Watcher returns the caller of a call that waits for events, and how many
	// of them it may have at this replica: see master.Master.
	Watcher(by *master.Caller) (who string, most int64, bounded bool)
	RefuseWatch(who string, used, most int64) error
	// Authorize checks a call that this replica answers itself, by its own state.
	Authorize(by *master.Caller) error

	// Known returns what this replica knows now. It never blocks while Hangs is
	// nil.
	Known() Location
	// Hangs returns a reason of the replica's own why it cannot serve; nil
	// while it can. It never blocks.
	Hangs() error
	// Locate waits a bounded time for a known master; otherwise the error is
	// no_master.
	Locate(ctx context.Context) (Location, error)

	// WatchEvents returns a watch of this replica's own log, which wakes its
	// reader and never blocks. The error is no_master if the replica cannot
	// answer from its own state.
	WatchEvents(f master.EventFilter) (master.EventWatch, error)

	// View describes the cell and this replica.
	View() master.View
	// Metrics returns the metrics of the replica.
	Metrics() metric.Set
}
