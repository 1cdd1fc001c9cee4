package state

// editor makes the next state: a copy, whose trees share all nodes with those
// of the state before until they are changed.
type editor struct {
	*State
	changes []Change
	likely  int // changes
}

// edit begins the change of a state by so many commands.
func edit(s *State, commands int) *editor {
	next := *s
	next.sessions.Edit()
	next.keys.Edit()
	next.nodes.Edit()
	next.holds.Edit()
	next.queue.Edit()
	next.claims.Edit()
	return &editor{State: &next, likely: commands}
}

// tell adds to what Apply returns.
func (e *editor) tell(c Change) {
	if e.changes == nil {
		e.changes = make([]Change, 0, e.likely)
	}
	e.changes = append(e.changes, c)
}

func (e *editor) nextSeq() uint64 {
	e.Seq++
	return e.Seq
}

// nextRevision numbers a change that watchers are told of.
func (e *editor) nextRevision() uint64 {
	e.Revision++
	return e.Revision
}
