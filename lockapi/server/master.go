package server

import (
	"context"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
	"github.com/stoutlock/stout/master"
)

// Location says where the master is.
type Location = master.Location

// Links are a member's connections to the others: see package peers.
type Links = peers.Links

var _ Master = (*master.Master)(nil)

// Master is what the server needs of the replica that it runs in, master or
// not. Its methods are safe for concurrent use. Every error they return is a
// *lockapi.Error; calls given to them have passed their Validate.
type Master interface {
	Office
	Locator
	Watcher
	Observer
}

// Office serves calls.
type Office interface {
	// Do serves a call: see master.Master.
	Do(ctx context.Context, by *master.Caller, stale bool, c lockapi.Call) (any, master.Outcome, error)
	// Judge judges a call that this replica answers itself, by its own state.
	Authorize(by *master.Caller) error
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

// Watcher has the cell's events, of this replica's own log.
type Watcher interface {
	// WatchEvents returns a watch, which wakes its reader and never blocks. The error is
	// no_master where the replica does not answer by its own state.
	WatchEvents(f master.EventFilter) (master.EventWatch, error)
}

// Observer describes the cell and this replica.
type Observer interface {
	View() master.View
	// Metrics are those of the replica.
	Metrics() metric.Set
}
