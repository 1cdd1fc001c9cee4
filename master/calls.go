package master

import (
	"context"
	"fmt"
	"reflect"

	"github.com/stoutlock/stout/lockapi"
)

// Audit says which calls of a type the audit log has, besides those that are denied.
type Audit uint8

// Which calls the audit log has.
const (
	AuditNever   Audit = iota // reads, and keepalives
	AuditChanges              // where all changes are asked for
	AuditOthers               // what is done to another principal's session; else as AuditChanges
	AuditAlways               // changes of access, members and mastership, and backups
)

// Row is what the office knows of the calls of one type. Nobody changes it.
type Row struct {
	Right   Right // that the caller needs while access is on, at Path or in the cell
	Audit   Audit
	Reads   bool // changes nothing, and may be answered by a replica's own state
	Own     bool // is always answered so
	Repeats bool // has no effect that a repetition could double
	Leads   bool // is served by a replica that leads, also out of office

	keyed bool // its answer says whether it was given before
	asked bool // the caller has set what the call asks for

	path  func(lockapi.Call) string   // that the call is about; nil for the cell
	ask   func(lockapi.Call, *Caller) // for what the call asks besides; nil for nothing
	heavy func(*Master, lockapi.Call) bool
	serve func(context.Context, *Master, *Read, lockapi.Call) (any, error)
}

// RowOf returns the row of the calls of a type; nil where there is none.
func RowOf(call reflect.Type) *Row { return rows[call] }

// Path is the path at which the right to the call is judged; empty for the cell.
func (r *Row) Path(c lockapi.Call) string {
	if r.path == nil {
		return ""
	}
	return r.path(c)
}

// Outcome is what a call came to besides its answer or its error.
type Outcome struct {
	Told
	Revision uint64 // of the state that a read is of; 0 for none
	Replayed bool   // an earlier answer under the call's key is given again
}

// Do serves a call for a caller. stale says that a read may be answered from this
// replica's own state; every other call takes an office. The error is a
// *lockapi.Error. The caller's right is judged by the call's row. A nil answer is
// that of a call that has none. A call whose answer takes milliseconds of CPU to make
// waits for a turn first, see Turns.
func (m *Master) Do(ctx context.Context, by *Caller, stale bool, c lockapi.Call) (answer any, out Outcome, err error) {
	row := rows[reflect.TypeOf(c)]
	if row == nil {
		return nil, out, fmt.Errorf("no row for a %T", c)
	}
	q := &asked{Read: Read{Caller: by, Stale: stale && row.Reads || row.Own}}
	q.out.Told = Told{Principal: by.Principal, How: by.How}
	q.AsOf, by.Told = &q.out.Revision, &q.out.Told
	if !row.asked {
		by.Ask = Ask{Right: row.Right, Path: row.Path(c)}
	}
	if row.ask != nil {
		row.ask(c, by)
	}
	if row.heavy != nil && by.Turns != nil && row.heavy(m, c) {
		if err := by.Turns.TakeTurn(ctx); err != nil {
			return nil, q.out, err
		}
	}
	answer, err = row.serve(ctx, m, &q.Read, c)
	if row.keyed && err == nil {
		q.out.Replayed = answer.(interface{ again() bool }).again()
	}
	return answer, q.out, err
}

// asked is a call under way, with what it has come to so far.
type asked struct {
	Read
	out Outcome
}

// rows has a row for each call.
var rows = map[reflect.Type]*Row{}

func init() {
	for _, add := range [][]entry{sessionCalls, lockCalls, fileCalls, cellCalls, accessCalls} {
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

// change is the entry of a call that changes the cell.
func change[C, A any](right Right, audit Audit, path func(*C) string, do func(*Master, context.Context, *Caller, *C) (A, error)) entry {
	_, keyed := any(*new(A)).(interface{ again() bool })
	return entryOf(Row{Right: right, Audit: audit, keyed: keyed}, path, func(ctx context.Context, m *Master, r *Read, c *C) (any, error) {
		return do(m, ctx, r.Caller, c)
	})
}

// remove is change for a call that has no answer.
func remove[C any](right Right, audit Audit, path func(*C) string, do func(*Master, context.Context, *Caller, *C) error) entry {
	return entryOf(Row{Right: right, Audit: audit}, path, func(ctx context.Context, m *Master, r *Read, c *C) (any, error) {
		return nil, do(m, ctx, r.Caller, c)
	})
}

// query is the entry of a call that reads.
func query[C, A any](right Right, path func(*C) string, do func(*Master, context.Context, *Read, *C) (A, error)) entry {
	return entryOf(Row{Right: right, Reads: true}, path, func(ctx context.Context, m *Master, r *Read, c *C) (any, error) {
		return do(m, ctx, r, c)
	})
}

// list is query for an answer that is a list.
func list[C, A any](right Right, path func(*C) string, do func(*Master, context.Context, *Read, *C) (A, error)) entry {
	return heavy(query(right, path, do), func(*Master, *C) bool { return true })
}

// heavy says which calls of an entry have answers that take milliseconds to make.
func heavy[C any](e entry, is func(*Master, *C) bool) entry {
	e.row.heavy = func(m *Master, c lockapi.Call) bool { return is(m, c.(*C)) }
	return e
}

// asking says for what the calls of an entry ask besides, or instead.
func asking[C any](e entry, ask func(*C, *Caller)) entry {
	e.row.ask = func(c lockapi.Call, by *Caller) { ask(c.(*C), by) }
	return e
}

// set changes a row that is being made.
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
