// Package members changes the members of a cell.
//
// It asks the members for their health, carries out an operator's changes,
// finishes changes that an earlier master left half done, gives votes to members
// that have caught up, replaces a directory that is gone, and raises the cell's
// level. Package master checks the caller's rights, runs the rounds while it is
// in office, and decides whether an answer may leave. Raft's own part of a
// change belongs to package replica.
//
// A change of a member takes two entries: one of the table of members, which has
// each member's addresses and whether it stays without a vote, and one of Raft's
// configuration; or two of the configuration. The second entry may be missing
// after a master is lost. The order lets the next master recognize the intent,
// and finish or undo the change (see settle and step). docs/design.md, "The table
// of members", has a row for each kind of change, and TestHalfChanges makes the
// first half of each.
package members

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// Cell is Raft's configuration and the way to the members. Membership returns the
// latest configuration, ChangeMember makes one change of it (see package
// replica), and Ask asks a member for its status, by its name or its server id.
type Cell interface {
	Membership() (membership.Membership, error)
	ChangeMember(ctx context.Context, since uint64, change membership.Change, s membership.MemberStatus) error
	Ask(ctx context.Context, id string) (admission.Info, error)
	CellID() string
	Directory() string
	Health() membership.Health
}

// Office is the office in which a change is made.
type Office interface {
	// Put returns the result of an operation: from memory if it changes
	// nothing, else from the log.
	Put(state.Operation) (state.Result, error)
	// ReadyFor raises the cell's level if an operation needs a higher one.
	ReadyFor(state.Operation) error
	// Ended reports whether the office has ended.
	Ended() bool
}

// Options configure a Table. All are required, except for AutoReplace.
type Options struct {
	ID          string        // of this replica
	Level       uint64        // the highest that this release knows
	AutoReplace time.Duration // see master.Options
	Clock       func() time.Duration
	Logger      zerolog.Logger
	State       func() *state.State
	Barrier     func(context.Context) error
	// Master returns the master's replica id, or empty, as far as known.
	Master func() string
	// Transfer gives mastership to another replica. An error means that it
	// stays, or that the outcome is unknown.
	Transfer func(context.Context) error
	// Changed is called after each change of Raft's configuration, and Wake
	// when another Round may find something to do.
	Changed func(change membership.Change, id string)
	Wake    func()
}

// Table is the members of a cell, as one replica sees and changes them. It is
// safe for concurrent use.
type Table struct {
	cell Cell
	opts Options
	turn chan struct{} // a semaphore for changes, see exclusively
}

// New makes a Table.
func New(cell Cell, o Options) *Table {
	return &Table{cell: cell, opts: o, turn: make(chan struct{}, 1)}
}

// membership returns Raft's present configuration, or a no_master.
func (t *Table) membership() (membership.Membership, error) {
	now, err := t.cell.Membership()
	if err != nil {
		err = errNoMaster("the membership is not known: %v", err)
	}
	return now, err
}

// settled returns Raft's present configuration, or busy while it may still be
// undone: then it shows neither that a change was made nor that a member is gone.
func (t *Table) settled() (membership.Membership, error) {
	now, err := t.membership()
	if err == nil && now.Changing {
		err = errBusy()
	}
	return now, err
}

func errBusy() error {
	return lockapi.Errorf(lockapi.CodeBusy, "%v; try again", membership.ErrBusy)
}

// errNoMaster reports that a call had no effect.
func errNoMaster(format string, args ...any) error {
	e := lockapi.Errorf(lockapi.CodeNoMaster, format, args...)
	e.RetryAfter = 1
	return e
}

// ErrLevel refuses an operation that some replica may not understand.
func ErrLevel(op state.Operation, level uint64) *lockapi.Error {
	return lockapi.Errorf(lockapi.CodeConflict,
		"this call needs a higher level than the cell has (%d; %s): first upgrade all replicas to a release that has it; see GET %s",
		level, state.Name(op), lockapi.RouteMembers)
}
