package master

import (
	"context"
	"fmt"
	"reflect"

	"github.com/stoutlock/stout/lockapi"
)

// Audit selects the calls of a type that the audit log records, besides denied
// ones.
type Audit uint8

// Which calls the audit log records.
const (
	AuditNever   Audit = iota // reads, and keepalives
	AuditChanges              // if the audit is configured to record all changes
	AuditOthers               // calls about another principal's session; others as AuditChanges
	AuditAlways               // changes of access, members and mastership, and backups
)

// Row describes the calls of one type. It is immutable.
type Row struct {
	Right   Right // the caller's right while access is on, at Path or in the cell
	Audit   Audit
	Reads   bool // changes nothing, and may be answered by a replica's own state
	Own     bool // is always answered by a replica's own state
	Repeats bool // has no effect that a repetition could double
	Leads   bool // is served by any replica that leads, with or without an office
	Frees   bool // keeps or frees what the caller has, and so has a quota of its own

	keyed bool // its answer shows whether it was replayed
	asked bool // the caller has set Caller.Ask itself

	path  func(lockapi.Call) string   // returns the call's path; nil for the cell
	ask   func(lockapi.Call, *Caller) // adds the other rights that the call needs; may be nil
	heavy func(*Master, lockapi.Call) bool
	serve func(context.Context, *Master, *Read, lockapi.Call) (any, error)
}

// RowOf returns the row of the calls of a type, or nil.
func RowOf(call reflect.Type) *Row { return rows[call] }

// Path returns the path at which the call needs its right; empty for the cell.
func (r *Row) Path(c lockapi.Call) string {
	if r.path == nil {
		return ""
	}
	return r.path(c)
}

// Outcome is what a call returns besides its answer or its error.
type Outcome struct {
	Checked
	Revision uint64 // of the state that a read is of; 0 for none
	Replayed bool   // an earlier answer under the call's key is given again
}

// Do serves a call for a caller and checks the rights that the call's row
// names. With stale, a read may be answered from this replica's own state;
// every other call needs an office. The error is a *lockapi.Error, or ErrParked.
// The answer is nil for a call without one. A call with an answer that takes
// milliseconds of CPU waits for a turn first: see Turns.
func (m *Master) Do(ctx context.Context, by *Caller, stale bool, c lockapi.Call) (answer any, out Outcome, err error) {
	row := rows[reflect.TypeOf(c)]
	if row == nil {
		return nil, out, fmt.Errorf("no row for a %T", c)
	}
	q := &asked{Read: Read{Caller: by, Stale: stale && row.Reads || row.Own}}
	q.out.Checked = Checked{Principal: by.Principal, How: by.How}
	q.AsOf, by.Told = &q.out.Revision, &q.out.Checked
	if !row.asked {
		by.Ask = Ask{Right: row.Right, Path: row.Path(c)}
	}
	if row.ask != nil {
		row.ask(c, by)
	}
	if row.heavy != nil && by.Turns != nil && row.heavy(m, c) {
		if err := checkRead(ctx, m, &q.Read); err != nil {
			return nil, q.out, err
		}
		if err := by.Turns.AwaitTurn(ctx); err != nil {
			return nil, q.out, err
		}
	}
	answer, err = row.serve(ctx, m, &q.Read, c)
	if row.keyed && err == nil {
		q.out.Replayed = answer.(interface{ again() bool }).again()
	}
	return answer, q.out, err
}

// asked is a call under way, with its outcome so far.
type asked struct {
	Read
	out Outcome
}

// rows has a row for each call.
var rows = map[reflect.Type]*Row{}

func init() {
	for _, add := range [][]entry{sessionCalls, lockCalls, fileCalls, keyCalls, cellCalls, accessCalls} {
		for _, e := range add {
			rows[e.call] = e.row
		}
	}
}

// entry is a row and the type of its calls.
type entry struct {
	call reflect.Type
	row  *Row
}

// change returns the entry of a call that changes the cell.
func change[C, A any](right Right, audit Audit, path func(*C) string, do func(*Master, context.Context, *Caller, *C) (A, error)) entry {
	_, keyed := any(*new(A)).(interface{ again() bool })
	return entryOf(Row{Right: right, Audit: audit, keyed: keyed}, path, func(ctx context.Context, m *Master, r *Read, c *C) (any, error) {
		return do(m, ctx, r.Caller, c)
	})
}

// remove is change for a call without an answer.
func remove[C any](right Right, audit Audit, path func(*C) string, do func(*Master, context.Context, *Caller, *C) error) entry {
	return entryOf(Row{Right: right, Audit: audit}, path, func(ctx context.Context, m *Master, r *Read, c *C) (any, error) {
		return nil, do(m, ctx, r.Caller, c)
	})
}

// query returns the entry of a call that reads.
func query[C, A any](right Right, path func(*C) string, do func(*Master, context.Context, *Read, *C) (A, error)) entry {
	return entryOf(Row{Right: right, Reads: true}, path, func(ctx context.Context, m *Master, r *Read, c *C) (any, error) {
		return do(m, ctx, r, c)
	})
}

// list is query for an answer that is a list.
func list[C, A any](right Right, path func(*C) string, do func(*Master, context.Context, *Read, *C) (A, error)) entry {
	return heavy(query(right, path, do), func(*Master, *C) bool { return true })
}

// heavy sets which calls of an entry take milliseconds of CPU to answer.
func heavy[C any](e entry, is func(*Master, *C) bool) entry {
	e.row.heavy = func(m *Master, c lockapi.Call) bool { return is(m, c.(*C)) }
	return e
}

// asking sets what the calls of an entry need besides, or instead.
func asking[C any](e entry, ask func(*C, *Caller)) entry {
	e.row.ask = func(c lockapi.Call, by *Caller) { ask(c.(*C), by) }
	return e
}

// set changes a row while it is being built.
func (e entry) set(change func(*Row)) entry {
	change(e.row)
	return e
}

func entryOf[C any](row Row, path func(*C) string, serve func(context.Context, *Master, *Read, *C) (any, error)) entry {
	if path != nil {
		row.path = func(c lockapi.Call) string { return path(c.(*C)) }
	}
	row.serve = func(ctx context.Context, m *Master, r *Read, c lockapi.Call) (any, error) {
		return serve(ctx, m, r, c.(*C))
	}
	return entry{reflect.TypeFor[*C](), &row}
}
