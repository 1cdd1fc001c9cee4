package master

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// TransactionDone is the result of a transaction.
type TransactionDone struct {
	lockapi.TransactionResult
	Replayed bool // an earlier answer under the key is given again
}

func (d TransactionDone) again() bool { return d.Replayed }

// Transact makes several changes atomically, or none. The errors are
// precondition_failed with the operation that failed, conflict for another call
// under the key, session_not_found, too_many, and the errors of every call.
func (m *Master) Transact(_ context.Context, by *Caller, req *lockapi.Transact) (TransactionDone, error) {
	return serve(m, by, func(o *office) (TransactionDone, error) {
		t := &transaction{o: o, by: by, req: req, op: &state.Transaction{Session: req.Session, Key: req.Key,
			If: conditionsOf(req.If), Then: stepsOf(req.Then), Else: stepsOf(req.Else)}}
		t.op = o.withNameChecks(by, t.op)
		if req.Key != "" {
			t.op.Digest = digestOf(req)
		}
		r, ok := t.fromMemory()
		if !ok {
			var err error
			if r, err = t.propose(); err != nil {
				return TransactionDone{}, err
			}
		}
		return t.answer(r)
	})
}

type transaction struct {
	o   *office
	by  *Caller
	req *lockapi.Transact
	op  *state.Transaction // immutable: the log may have it
}

// fromMemory returns the result of a transaction that changes nothing, as for
// single calls. The log decides if other calls for the same handles are under
// way, or if the transaction acquires a lock that is held already: the answer
// delivers that grant, which must not be withdrawn after that.
func (t *transaction) fromMemory() (state.TransactionResult, bool) {
	takes := false
	for _, step := range slices.Concat(t.op.Then, t.op.Else) {
		switch s := step.(type) {
		case *state.Take:
			takes = true
			if t.o.busy(state.HandleKey{Session: t.op.Session, Path: s.Path, Handle: s.Handle}) {
				return state.TransactionResult{}, false
			}
		case *state.Free:
			if t.o.busy(state.HandleKey{Session: t.op.Session, Path: s.Path, Handle: s.Handle}) {
				return state.TransactionResult{}, false
			}
		}
	}
	found, ok := t.o.fromMemory(t.op)
	r, _ := found.(state.TransactionResult)
	return r, ok && !(takes && r.Verdict == state.Done)
}

// propose puts the transaction through the log if the quotas allow it. While
// the call is under way, its locks are not withdrawn, as with any acquire.
func (t *transaction) propose() (state.TransactionResult, error) {
	reserved, err := t.o.quotas.Transaction(t.op, t.by.Principal)
	if err != nil {
		return state.TransactionResult{}, err
	}
	defer t.o.quotas.Release(reserved)
	acquires := map[state.HandleKey]*acquire{}
	for _, step := range slices.Concat(t.op.Then, t.op.Else) {
		take, ok := step.(*state.Take)
		if !ok || acquires[state.HandleKey{Session: t.op.Session, Path: take.Path, Handle: take.Handle}] != nil {
			continue
		}
		a := t.acquire(take)
		a.enter()
		defer a.exit()
		acquires[a.key] = a
	}
	r, err := resultOf[state.TransactionResult](t.o.propose(t.by, t.op))
	if r.Replayed { // the grant may be over: it proves nothing about the present one
		return r, err
	}
	for _, s := range r.Steps {
		if s.Hold != nil {
			if a := acquires[s.Hold.HandleKey()]; a != nil {
				a.markDelivered(t.o, s.Hold)
			}
		}
	}
	return r, err
}

// acquire returns the call that a step would be by itself.
func (t *transaction) acquire(s *state.Take) *acquire {
	return newAcquire(t.o, t.by, &lockapi.AcquireLock{Path: s.Path, LockRequest: lockapi.LockRequest{
		Session: t.op.Session, Handle: s.Handle, Mode: mode(s.Mode), Limit: s.Limit, LockDelayMS: s.DelayMS}})
}

// answer turns a result into a reply.
func (t *transaction) answer(r state.TransactionResult) (TransactionDone, error) {
	branch, steps := t.req.Else, t.op.Else
	if r.Succeeded {
		branch, steps = t.req.Then, t.op.Then
	}
	if r.Failure != nil && r.Failure.Why == state.Denied {
		e := t.by.who().Denied(access.Write.String(), r.Failure.Path)
		e.Operation = &r.Failure.Step
		return TransactionDone{}, e
	}
	if r.Verdict == state.Failed {
		e := errFailed(r.Failure, steps[r.Failure.Step])
		e.Replayed = r.Replayed
		return TransactionDone{}, t.by.who().FilterFailure(t.o.log.State(), e, r.Failure, steps)
	}
	if err := errOf(t.op, r); err != nil {
		return TransactionDone{}, err
	}
	done := TransactionDone{TransactionResult: lockapi.TransactionResult{
		Succeeded: r.Succeeded, Revision: r.Revision, Results: []lockapi.OperationResult{}}, Replayed: r.Replayed}
	for i, s := range r.Steps {
		done.Results = append(done.Results, resultFor(&branch[i], s))
	}
	return done, nil
}

// errFailed returns the operation that failed, with what prevented it at that
// time.
func errFailed(f *state.Failure, step state.Step) *lockapi.Error {
	if f.Why == state.TooLong {
		e := lockapi.Errorf(lockapi.CodeTooLarge, "with operation %d the results exceed %d bytes of content as JSON: nothing was changed; "+
			"get fewer files in one transaction, or get large files by themselves", f.Step, state.MaxResults)
		e.Operation = &f.Step
		return e
	}
	e := errFailure(f)
	if take, ok := step.(*state.Take); ok {
		e = errNotAcquired(take.Path, f)
	}
	e.Detail = lockapi.Errorf(e.Code, "operation %d failed: %s", f.Step, e.Detail).Detail
	e.Operation = &f.Step
	return e
}

// errNotAcquired returns the holders of a lock that a transaction could not
// acquire.
func errNotAcquired(path string, f *state.Failure) *lockapi.Error {
	why := fmt.Sprintf("was not granted (holders: %d, waiters: %d)", f.Lock.Held, f.Lock.Waiters)
	switch f.Why {
	case state.Conflict:
		why = "is held or waited for in another mode or with another limit"
	case state.Delayed:
		why = fmt.Sprintf("is free, but within its lock-delay of %d ms", f.Lock.DelayMS)
	}
	e := lockapi.Errorf(lockapi.CodePrecondition, "lock %q %s: nothing was changed", path, why)
	e.MoreHolders = f.Lock.Held - len(f.Lock.Holders)
	for _, h := range f.Lock.Holders {
		holder := holderOf(&state.Hold{Session: h.Session, Handle: h.Handle, Mode: h.Mode, Token: h.Token, GrantedAt: h.GrantedAt})
		holder.SessionName, holder.Principal = h.Name, h.Principal
		e.Holders = append(e.Holders, holder)
	}
	return e
}

func conditionsOf(all []lockapi.Condition) (out []state.Condition) {
	for _, c := range all {
		switch {
		case c.Revision != nil:
			out = append(out, &state.FileAt{Path: c.File, Revision: *c.Revision})
		case c.Exists != nil:
			out = append(out, &state.FileExists{Path: c.File, Exists: *c.Exists})
		case c.Sequencer != "":
			q, _ := lockapi.ParseSequencer(c.Sequencer)
			out = append(out, &state.GrantHeld{Sequencer: guardsOf([]lockapi.Sequencer{q})[0]})
		case c.Session != "":
			out = append(out, &state.SessionLives{Session: c.Session})
		default:
			out = append(out, &state.LockFree{Path: c.Lock})
		}
	}
	return out
}

func stepsOf(all []lockapi.Operation) (out []state.Step) {
	for _, o := range all {
		switch {
		case o.Put != nil:
			out = append(out, writeOf(o.Put))
		case o.Create != nil:
			w := writeOf(o.Create)
			w.When = state.IfAbsent
			out = append(out, w)
		case o.CreateSequential != nil:
			w := writeOf(o.CreateSequential)
			w.Sequential = true
			out = append(out, w)
		case o.Delete != nil:
			out = append(out, &state.Delete{Path: o.Delete.Path})
		case o.Get != nil:
			out = append(out, &state.Get{Path: o.Get.Path})
		case o.Acquire != nil:
			a := o.Acquire
			out = append(out, &state.Take{Path: a.Path, Handle: a.Handle, Mode: stateMode(a.Mode), Limit: a.Limit, DelayMS: a.LockDelayMS})
		default:
			r := o.Release
			out = append(out, &state.Free{Path: r.Path, Handle: r.Handle, Token: r.Token})
		}
	}
	return out
}

func writeOf(w *lockapi.WriteOperation) *state.Write {
	var content []byte
	switch {
	case w.Content != nil:
		content = []byte(*w.Content)
	case w.ContentBase64 != nil:
		content = *w.ContentBase64
	}
	sum := sha256.Sum256(content)
	return &state.Write{Path: w.Path, Content: content, Sum: sum[:], Owner: ownerOf(w.Ephemeral)}
}

// ownerOf returns the owner of a written file; nil leaves it unchanged.
func ownerOf(ephemeral *bool) state.Owner {
	switch {
	case ephemeral == nil:
		return state.SameOwner
	case *ephemeral:
		return state.OwnedBy
	}
	return state.Permanent
}

// resultFor returns the result of an operation.
func resultFor(o *lockapi.Operation, r state.StepResult) lockapi.OperationResult {
	switch {
	case o.Delete != nil:
		return lockapi.OperationResult{Deleted: &lockapi.FileDeleted{Deleted: r.Deleted > 0, Revision: r.Revision}}
	case o.Release != nil:
		return lockapi.OperationResult{Released: &lockapi.Released{Released: r.Freed}}
	case o.Acquire != nil:
		return lockapi.OperationResult{Grant: new(grantOf(r.Hold))}
	case r.File == nil:
		return lockapi.OperationResult{}
	}
	return lockapi.OperationResult{File: new(FileOf(statOf(r.File), r.File.Content, o.Get != nil))}
}
