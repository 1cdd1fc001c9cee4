package client

import (
	"context"
	"fmt"
	"net/http"

	"github.com/stoutlock/stout/lockapi"
)

// Txn is a transaction that is being put together: if every condition holds all
// of Then happens, else all of Else, as one change. Where one operation can't
// be done none is.
//
//	_, err := session.Txn().
//		If(client.WhenRevision("/a", 57), client.WhenHeld(held)).
//		Then(client.OpPut("/a", a), client.OpDelete("/b")).
//		Commit(ctx)
//
// It is not safe for concurrent use.
type Txn struct {
	w     sender
	req   lockapi.Transaction
	holds []*Held // of conditions
	err   error   // of a part
}

// Txn begins a transaction on behalf of nobody, which is sent once, as Put is.
func (c *Client) Txn() *Txn { return &Txn{w: sender{c: c}} }

// Txn begins a transaction on behalf of the session, which is done exactly
// once, as Session.Put is. Ephemeral files and locks need it.
func (s *Session) Txn() *Txn {
	return &Txn{w: sender{c: s.c, s: s}, req: lockapi.Transaction{Session: s.id}}
}

// If adds conditions.
func (t *Txn) If(conditions ...Condition) *Txn {
	for _, c := range conditions {
		t.fail(c.err)
		t.req.If = append(t.req.If, c.Condition)
		if c.held != nil {
			t.holds = append(t.holds, c.held)
		}
	}
	return t
}

// Then adds operations for where all conditions hold.
func (t *Txn) Then(operations ...Operation) *Txn {
	t.req.Then = t.add(t.req.Then, operations)
	return t
}

// Else adds operations for where a condition does not hold.
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

// Commit makes the transaction. That a condition did not hold is no error:
// TransactionResult.Succeeded tells it. The results are those of the branch that
// was taken, in its order.
//
// Where an operation can't be done the error is ErrPrecondition, with its number
// as lockapi.Error.Operation and what stands in its way: Current or Holders.
//
// A lock that a transaction takes is not looked after by the session: it has no
// Held. The session keeps it, as it keeps alive, until it is released by
// OpRelease or Client.Release, or the session ends.
func (t *Txn) Commit(ctx context.Context) (out lockapi.TransactionResult, err error) {
	if t.err != nil {
		return out, t.err
	}
	for _, h := range t.holds {
		if err := h.guards(); err != nil {
			return out, err
		}
	}
	if n := len(t.req.If) + len(t.req.Then) + len(t.req.Else); n > lockapi.MaxTransactionParts {
		return out, lockapi.Invalid("then", "the transaction has %d conditions and operations; at most %d are allowed", n, lockapi.MaxTransactionParts)
	}
	q := &call{
		method: http.MethodPost, path: lockapi.RouteTransactions, body: encode(t.req), out: &out,
		check: func(q *call) string { return t.verify(q.out.(*lockapi.TransactionResult), q.want.since) },
	}
	if len(q.body) > lockapi.MaxTransactionBytes {
		return out, lockapi.Errorf(lockapi.CodeTooLarge, "the transaction has %d bytes; at most %d are allowed", len(q.body), lockapi.MaxTransactionBytes)
	}
	if err := t.w.send(ctx, q); err != nil {
		return lockapi.TransactionResult{}, err
	}
	t.w.c.seen.note(out.Revision)
	return out, nil
}

// verify says what is wrong with the outcome of a transaction.
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

// wrongResult says what is wrong with the outcome of an operation of a
// transaction, which was sent when the cell had been seen at one revision and
// ended at another.
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
	case op.Acquire != nil && (r.Grant == nil || r.Grant.Path != op.Acquire.Path || r.Grant.Handle != op.Acquire.Handle || r.Grant.Token == 0 || !describes(r.Grant.Sequencer, r.Grant)):
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
