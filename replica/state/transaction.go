package state

import "slices"

// Transaction makes several changes atomically. If every condition holds, all
// steps of Then happen, otherwise all of Else. If one step fails, no step
// happens. A single write of a file is a transaction of one step.
type Transaction struct {
	Session string      // the session that acts, which must live; empty without one
	Key     string      // idempotency key within the session; empty without one
	Digest  []byte      // of the call sent with Key
	Guards  []Sequencer // grants that must be held, otherwise the result is NotHeld
	If      []Condition
	Then    []Step
	Else    []Step
}

// TransactionResult is the result of Transaction: Done, Failed with the step,
// NotHeld with the guard, NoSession, TooLong, or Conflict if another call used
// the key.
type TransactionResult struct {
	Verdict   Verdict      `cbor:"1,keyasint"`
	Succeeded bool         `cbor:"2,keyasint,omitempty"` // the conditions held
	Revision  uint64       `cbor:"3,keyasint,omitempty"` // of its last change; without one, the cell's revision at the decision
	Steps     []StepResult `cbor:"4,keyasint,omitempty"` // of the branch taken
	Failure   *Failure     `cbor:"5,keyasint,omitempty"` // Failed: the step that failed
	Guard     *Sequencer   `cbor:"6,keyasint,omitempty"` // NotHeld: the guard that is not held
	Replayed  bool         `cbor:"-"`                    // this is the answer to an earlier call under the key
}

// Sequencer names one grant.
type Sequencer struct {
	_     struct{} `cbor:",toarray"`
	Mode  Mode
	Token uint64
	Path  string
}

// Held reports whether that exact grant is held.
func (s *State) Held(q Sequencer) bool {
	h, ok := s.HoldByToken(q.Path, q.Token)
	return ok && h.Mode == q.Mode
}

func (op *Transaction) wellFormed() bool {
	if !plain(op.Session) || op.Key != "" && op.Session == "" {
		return false
	}
	for _, steps := range [][]Step{op.Then, op.Else} {
		for _, step := range steps {
			if !step.sound(op) {
				return false
			}
		}
	}
	return true
}

func (op *Transaction) would(s *State) (Result, bool) {
	if op.certain(s) {
		return TransactionResult{Verdict: Done, Succeeded: true}, true
	}
	e := edit(s, 0)
	r := op.try(e)
	return r, len(e.changes) > 0
}

// certain reports whether the transaction is an unconditional write, or the
// deletion of a directory, and has no remembered answer. It surely changes something
// and need not be tried.
func (op *Transaction) certain(s *State) bool {
	if len(op.If) > 0 || slices.ContainsFunc(op.Guards, func(q Sequencer) bool { return !s.Held(q) }) {
		return false
	}
	if w := lone(op.Then); (w == nil || w.When != Always || w.Sequential) && !deletes(s, op.Then) {
		return false
	}
	if op.Session == "" {
		return true
	}
	_, lives := s.sessions.Get(op.Session)
	if !lives || op.Key == "" {
		return lives
	}
	_, again := s.Answer(op.Session, op.Key)
	return !again
}

// deletes reports whether a branch only deletes a directory, which has files and
// not too many.
func deletes(s *State, branch []Step) bool {
	if len(branch) != 1 {
		return false
	}
	d, _ := branch[0].(*DeleteBelow)
	if d == nil {
		return false
	}
	n := 0
	for range s.Files(d.Prefix, "") {
		if n++; n > MaxDeleted {
			return false
		}
	}
	return n > 0
}

func (op *Transaction) do(e *editor, _ Result) Result { return op.try(e) }

// try executes the transaction as far as its conditions allow, and returns the
// result.
func (op *Transaction) try(e *editor) Result {
	if op.Session != "" {
		if _, lives := e.sessions.Get(op.Session); !lives {
			return TransactionResult{Verdict: NoSession}
		}
	}
	if op.Key != "" {
		if earlier, ok := e.Answer(op.Session, op.Key); ok {
			return earlier.again(op.Digest)
		}
	}
	r := op.execute(e)
	if op.Key != "" && r.Verdict != TooLong && !r.denied() {
		e.remember(op, r)
	}
	return r
}

// denied reports whether the transaction failed because of a right. Such a
// result is not remembered: rights change, and each call is checked against the
// present ones.
func (r *TransactionResult) denied() bool { return r.Failure != nil && r.Failure.Why == Denied }

// execute checks guards and conditions, and executes the branch taken.
func (op *Transaction) execute(e *editor) TransactionResult {
	for i := range op.Guards {
		if !e.Held(op.Guards[i]) {
			return TransactionResult{Verdict: NotHeld, Guard: &op.Guards[i], Revision: e.Revision}
		}
	}
	r := TransactionResult{Verdict: Done, Succeeded: op.holds(e.State)}
	branch := op.Else
	if r.Succeeded {
		branch = op.Then
	}
	e.attemptAll(branch, func() bool {
		for i, step := range branch {
			done, failure := step.apply(e, op.Session)
			if failure != nil {
				failure.Step = i
				r.Verdict, r.Steps, r.Failure = Failed, nil, failure
				return false
			}
			r.Steps = append(r.Steps, done)
		}
		if i := r.beyond(MaxResults); i >= 0 && e.Level >= levelRights {
			r.Verdict, r.Steps, r.Failure = Failed, nil, &Failure{Step: i, Why: TooLong}
			return false
		}
		if op.Key != "" && r.size() > maxAnswer {
			r.Verdict, r.Steps = TooLong, nil
			return false
		}
		return true
	})
	r.Failure.describe(e.State, branch)
	if op.Key != "" && r.size() > maxAnswer {
		r.Verdict, r.Failure = TooLong, nil
	}
	r.Revision = e.Revision
	return r
}

// attemptAll runs the steps of a branch under attempt. A lone write has nothing
// to undo, so it runs directly. That spares the later commands of the batch
// from copying the same nodes again.
func (e *editor) attemptAll(branch []Step, do func() bool) {
	if lone(branch) == nil {
		e.attempt(do)
		return
	}
	do()
}

// lone returns the write that is the only step of a branch, if its answer is
// short enough to be remembered; otherwise nil.
func lone(branch []Step) *Write {
	if len(branch) != 1 {
		return nil
	}
	w, _ := branch[0].(*Write)
	if w == nil || len(w.Path) > maxAnswer/8 {
		return nil
	}
	return w
}

func (op *Transaction) holds(s *State) bool {
	for _, c := range op.If {
		if !c.holds(s) {
			return false
		}
	}
	return true
}
