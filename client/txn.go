package client

import (
	"context"
	"fmt"
	"net/http"

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
		if err := h.guards(); err != nil {
			return out, err
		}
	}
	if n := len(t.req.If) + len(t.req.Then) + len(t.req.Else); n > lockapi.MaxTransactionParts {
		return out, lockapi.Invalid("then", "the transaction has %d conditions and operations; at most %d are allowed", n, lockapi.MaxTransactionParts)
	}
	q := &call.Call{
		Method: http.MethodPost, Path: lockapi.RouteTransactions, Body: encode(t.req), Out: &out,
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
