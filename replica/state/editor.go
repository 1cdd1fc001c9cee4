package state

// editor makes the next state: a copy, whose trees share all nodes with those of
// the state before until they are changed.
type editor struct {
	*State
	events []Event
}

func edit(s *State) *editor {
	next := *s
	next.sessions.Edit()
	next.keys.Edit()
	next.locks.Edit()
	next.holds.Edit()
	next.queue.Edit()
	next.claims.Edit()
	return &editor{State: &next}
}

func (e *editor) emit(ev Event) {
	ev.Index = e.Index
	e.events = append(e.events, ev)
}

func (e *editor) nextSeq() uint64 {
	e.Seq++
	return e.Seq
}
