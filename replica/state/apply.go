package state

// Outcome is the result of applying one batch. A batch that was not accepted
// changed nothing and has no results.
type Outcome struct {
	Accepted bool
	Epoch    uint64 // after the batch
	Term     uint64 // raft term of the entry
	Index    uint64
	Results  []Result // of the commands, in order
	Changes  []Change
}

// Apply returns the state after the entry at (index, term), which carries b,
// and the outcome. The receiver does not change.
//
// A batch is accepted only in the office with its epoch, and only in the raft
// term that opened that office. So a command admitted before mastership was
// lost, or lost and regained, never takes effect late. A batch that opens an
// office is accepted if its entry has the raft term for which it was made.
func (s *State) Apply(index, term uint64, b Batch) (*State, Outcome) {
	e := edit(s, len(b.Commands))
	out := Outcome{Term: term, Index: index, Results: make([]Result, len(b.Commands))}
	opening, opens := b.opens()
	switch {
	case b.LeaseMS <= 0 || b.LeaseMS > MaxLeaseMS:
	case opens:
		if out.Accepted = e.openOffice(opening, term, b.LeaseMS, b.Commands[0].Time); out.Accepted {
			out.Results[0] = Done
		}
	case e.Office.Open && e.Office.Term == term && e.Epoch == b.Epoch:
		out.Accepted = true
		e.Office.LeaseMS = max(e.Office.LeaseMS, b.LeaseMS)
		for i := range b.Commands {
			out.Results[i] = e.apply(&b.Commands[i])
		}
	}
	e.Index, e.Term = index, term
	out.Epoch = e.Epoch
	if len(e.changes) > 0 {
		out.Changes = e.changes
	}
	return e.State, out
}

// apply applies one command of an accepted batch. It refuses commands after a
// CloseOffice, an OpenOffice that is not alone, and malformed operations.
func (e *editor) apply(c *Command) Result {
	before := e.Now
	e.Now = max(e.Now, c.Time)
	if e.caller, e.silentMS = "", 0; e.Level >= levelAccess {
		e.caller = c.Caller
	}
	if t, ok := c.Operation.(*Transaction); ok && e.supports(t) {
		return t.try(e) // try decides by executing, and may change nothing
	}
	if k, ok := c.Operation.(*ChangeKeys); ok && e.supports(k) {
		return k.try(e)
	}
	r, changes := e.Would(c.Operation)
	if r == nil {
		e.Now = before
	}
	if changes {
		r = c.do(e, r)
	}
	return r
}
