package client

import (
	"context"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/lockapi"
)

// Txn is a transaction under construction. If every condition holds, it makes
// all operations of Then, otherwise all of Else, as one change. If one
// operation is impossible, it makes no change. It is not safe for concurrent
// use.
type Txn struct {
	w     sender
	req   lockapi.Transaction
	holds []*Held // of conditions
	err   error   // of a part
}

// Txn begins a transaction without a session. It is sent once, as Put is.
func (c *Client) Txn() *Txn { return &Txn{w: sender{c: c}} }

// Txn begins a transaction on behalf of the session. It takes effect exactly
// once, as Session.Put does. Ephemeral files and locks need it.
func (s *Session) Txn() *Txn {
	return &Txn{w: sender{c: s.c, s: s}, req: lockapi.Transaction{Session: s.id}}
}

// If adds conditions.
func (t *Txn) If(conditions ...Condition) *Txn {
	for _, c := range conditions {
		t.fail(c.err)
		if c.held == nil {
			t.req.If = append(t.req.If, c.Condition)
			continue
		}
		t.holds = append(t.holds, c.held)
		for _, sequencer := range c.held.Sequencers() {
			t.req.If = append(t.req.If, lockapi.Condition{Sequencer: sequencer})
		}
	}
	return t
}

// Then adds operations to make if all conditions hold.
func (t *Txn) Then(operations ...Operation) *Txn {
	t.req.Then = t.add(t.req.Then, operations)
	return t
}

// Else adds operations to make if a condition does not hold.
func (t *Txn) Else(operations ...Operation) *Txn {
	t.req.Else = t.add(t.req.Else, operations)
	return t
}

func (t *Txn) add(to []lockapi.Operation, operations []Operation) []lockapi.Operation {
	for _, o := range operations {
		t.fail(o.err)
		to = append(to, o.Operation)
	}
	return to
}

func (t *Txn) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// Commit makes the transaction. If a condition did not hold, it returns no
// error but TransactionResult.Succeeded is false. The executed branch yields
// the results, in its order.
//
// If an operation is impossible the error is ErrPrecondition, with the
// operation's number in lockapi.Error.Operation and the obstacle in Current or
// Holders.
//
// A lock acquired in a transaction has no Held, so the session does not watch
// it. The session's keepalives keep it until OpRelease releases it, or the
// session ends.
func (t *Txn) Commit(ctx context.Context) (out lockapi.TransactionResult, err error) {
	if t.err != nil {
		return out, t.err
	}
	for _, h := range t.holds {
		if err := h.mayGuard(); err != nil {
			return out, err
		}
	}
	if n := len(t.req.If) + len(t.req.Then) + len(t.req.Else); n > lockapi.MaxTransactionParts {
		return out, lockapi.Invalid("then", "the transaction has %d conditions and operations; at most %d are allowed", n, lockapi.MaxTransactionParts)
	}
	q := &call.Call{
		Method: http.MethodPost, Path: lockapi.RouteTransactions, Body: call.Encode(t.req), Out: &out,
		Check: func(q *call.Call) string { return t.verify(q.Out.(*lockapi.TransactionResult), q.Required.Since) },
	}
	if len(q.Body) > lockapi.MaxTransactionBytes {
		return out, lockapi.Errorf(lockapi.CodeTooLarge, "the transaction has %d bytes; at most %d are allowed", len(q.Body), lockapi.MaxTransactionBytes)
	}
	if err := t.w.send(ctx, q); err != nil {
		return lockapi.TransactionResult{}, err
	}
	t.w.c.seen.note(out.Revision)
	return out, nil
}

// verify describes what is wrong with the outcome of a transaction, "" if it is
// right.
func (t *Txn) verify(out *lockapi.TransactionResult, since uint64) string {
	branch := t.req.Then
	if !out.Succeeded {
		branch = t.req.Else
	}
	if len(out.Results) != len(branch) {
		return fmt.Sprintf("%d results of %d operations", len(out.Results), len(branch))
	}
	if out.Revision > lockapi.MaxToken {
		return fmt.Sprintf("revision %d", out.Revision)
	}
	for i := range branch {
		if wrong := wrongResult(&branch[i], &out.Results[i], since, out.Revision); wrong != "" {
			return fmt.Sprintf("for operation %d %s", i, wrong)
		}
	}
	return wrongDate(out.Revision, since)
}

// wrongResult describes what is wrong with the result of one operation. since
// is the revision last seen when the transaction was sent, until its own
// revision.
func wrongResult(op *lockapi.Operation, r *lockapi.OperationResult, since, until uint64) string {
	write := op.Put
	switch {
	case op.Create != nil:
		write = op.Create
	case op.CreateSequential != nil:
		write = op.CreateSequential
	}
	switch {
	case write != nil:
		return wrongWrite(write, r.File, op.CreateSequential != nil, since, until)
	case op.Get != nil:
		if r.File != nil && r.File.Path != op.Get.Path {
			return fmt.Sprintf("the file %q", lockapi.Clip(r.File.Path))
		}
		if r.Grant != nil || r.Deleted != nil || r.Released != nil {
			return "no file"
		}
	case op.Delete != nil && r.Deleted == nil:
		return "no deletion"
	case op.Release != nil && r.Released == nil:
		return "no release"
	case op.Acquire != nil && (r.Grant == nil || r.Grant.Path != op.Acquire.Path || r.Grant.Handle != op.Acquire.Handle || r.Grant.Token == 0 || !describes(r.Grant.Sequencer, r.Grant.Mode, r.Grant.Path, r.Grant.Token)):
		return "no grant of the lock"
	}
	return ""
}

func wrongWrite(op *lockapi.WriteOperation, f *lockapi.File, sequential bool, since, until uint64) string {
	if f == nil {
		return "no stat"
	}
	name := op.Path
	if sequential {
		name += fmt.Sprintf("%0*d", lockapi.SequentialDigits, f.Revision)
	}
	switch {
	case f.Path != name:
		return fmt.Sprintf("the writing of %q", lockapi.Clip(f.Path))
	case f.Revision <= since || f.Revision > until:
		return fmt.Sprintf("revision %d, which is not within %d..%d", f.Revision, since+1, until)
	}
	return wrongStat(&f.FileStat)
}

// Condition is a condition of a transaction; see the functions When….
type Condition struct {
	lockapi.Condition
	err  error
	held *Held // must be good here, too
}

// WhenRevision holds while the file has this revision.
func WhenRevision(path string, revision uint64) Condition {
	return Condition{Condition: lockapi.Condition{File: path, Revision: &revision}, err: lockapi.ValidatePath(path)}
}

// WhenPresent holds while the file exists.
func WhenPresent(path string) Condition { return whenFile(path, true) }

// WhenAbsent holds while the file does not exist.
func WhenAbsent(path string) Condition { return whenFile(path, false) }

func whenFile(path string, exists bool) Condition {
	return Condition{Condition: lockapi.Condition{File: path, Exists: &exists}, err: lockapi.ValidatePath(path)}
}

// WhenHeld holds while the cell counts that very hold as held. If the hold is
// over here before sending, Commit returns ErrNotHeld and sends no request;
// Else runs only if the cell finds it over. A hold of several locks is one
// condition for each.
func WhenHeld(held *Held) Condition {
	if held == nil {
		return Condition{err: errNoHold}
	}
	return Condition{Condition: lockapi.Condition{Sequencer: held.sequencer}, held: held}
}

// WhenSequencer holds while the very grant that the sequencer describes is
// held.
func WhenSequencer(sequencer string) Condition {
	_, err := lockapi.ParseSequencer(sequencer)
	return Condition{Condition: lockapi.Condition{Sequencer: sequencer}, err: err}
}

// WhenAlive holds while the session with that id is alive.
func WhenAlive(session string) Condition {
	return Condition{Condition: lockapi.Condition{Session: session}}
}

// WhenFree holds while the lock has no holder, no waiter and no lock-delay.
func WhenFree(path string) Condition {
	return Condition{Condition: lockapi.Condition{Lock: path, State: lockapi.StateFree}, err: lockapi.ValidatePath(path)}
}

// Operation is an operation of a transaction; see the functions Op….
type Operation struct {
	lockapi.Operation
	err error
}

// OpPut writes a whole file. It accepts the options Ephemeral and Permanent.
func OpPut(path string, content []byte, opts ...WriteOption) Operation {
	w, err := writeOperation(path, content, opts)
	return Operation{lockapi.Operation{Put: w}, err}
}

// OpCreate is OpPut of a file that must not exist.
func OpCreate(path string, content []byte, opts ...WriteOption) Operation {
	w, err := writeOperation(path, content, opts)
	return Operation{lockapi.Operation{Create: w}, err}
}

// OpCreateSequential is OpPut of a file named by the prefix and 16 digits: the
// revision that creates it.
func OpCreateSequential(prefix string, content []byte, opts ...WriteOption) Operation {
	w, err := writeOperation(prefix, content, opts)
	return Operation{lockapi.Operation{CreateSequential: w}, err}
}

func writeOperation(path string, content []byte, opts []WriteOption) (*lockapi.WriteOperation, error) {
	o := makeWriteOptions(opts)
	w := &lockapi.WriteOperation{Path: path, Ephemeral: o.ephemeral}
	if utf8.Valid(content) {
		w.Content = new(string(content))
	} else {
		w.ContentBase64 = new(append([]byte{}, content...))
	}
	if o.ifRevision || o.ifAbsent || o.tell || o.holds != nil {
		return w, lockapi.Invalid("if", "an operation has no conditions of its own: give them to If")
	}
	return w, nil
}

// OpDelete deletes a file, if it exists.
func OpDelete(path string) Operation {
	return Operation{lockapi.Operation{Delete: &lockapi.FileOperation{Path: path}}, lockapi.ValidatePath(path)}
}

// OpGet reads a file.
func OpGet(path string) Operation {
	return Operation{lockapi.Operation{Get: &lockapi.FileOperation{Path: path}}, lockapi.ValidatePath(path)}
}

// OpAcquire acquires a lock, which must be available at once. It accepts the
// options Shared, Limit and LockDelay.
func OpAcquire(path, handle string, opts ...LockOption) Operation {
	o := makeLockOptions(opts)
	req := o.request("transaction", handle)
	err := lockapi.ValidatePath(path)
	if err == nil {
		err = req.Validate()
	}
	if err == nil && len(o.with) > 0 {
		err = lockapi.Invalid("with", "OpAcquire takes one lock; add an OpAcquire for each other one instead of With")
	}
	return Operation{lockapi.Operation{Acquire: &lockapi.AcquireOperation{
		Path: path, Handle: handle, Mode: req.Mode, Limit: req.Limit, LockDelayMS: req.LockDelayMS,
	}}, err}
}

// OpRelease releases the lock that the session holds under the handle; with a
// token other than 0, only that very grant.
func OpRelease(path, handle string, token uint64) Operation {
	return Operation{lockapi.Operation{Release: &lockapi.ReleaseOperation{Path: path, Handle: handle, Token: token}}, lockapi.ValidatePath(path)}
}
