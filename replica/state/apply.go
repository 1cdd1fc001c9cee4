package state

// Outcome is what applying one batch came to. A batch that was not accepted
// changed nothing, and has no results.
type Outcome struct {
	Accepted bool
	Epoch    uint64 // after the batch
	Term     uint64 // raft term of the entry
	Index    uint64
	Results  []Result // of the commands, in their order
	Changes  []Change
}

// Apply is the transition: the state after the entry at (index, term) that
// carries b, and what it came to. The receiver stays as it was.
//
// A batch is accepted only in the office whose epoch it names, and only from
// the raft term in which that office was opened; so a command that was admitted
// before mastership was lost, or lost and won back, never takes effect late.
// The batch that opens an office is accepted when it was made for the raft term
// that the entry has.
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

// apply applies one command of an accepted batch. What stands behind a
// CloseOffice, an OpenOffice that is not alone, and what is not well formed, is
// refused.
func (e *editor) apply(c *Command) Result {
	before := e.Now
	e.Now = max(e.Now, c.Time)
	if e.caller, e.silentMS = "", 0; e.Level >= levelAccess {
		e.caller = c.Caller
	}
	if t, ok := c.Operation.(*Transaction); ok && e.supports(t) {
		return t.try(e) // which decides by doing, or doing nothing
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
