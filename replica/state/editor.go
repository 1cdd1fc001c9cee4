package state

// editor makes the next state: a copy, whose trees share all nodes with those of
// the state before until they are changed.
type editor struct {
	*State
	events []Event
	likely int // events
}

// edit begins the change of a state by so many commands.
func edit(s *State, commands int) *editor {
	next := *s
	next.sessions.Edit()
	next.keys.Edit()
	next.locks.Edit()
	next.holds.Edit()
	next.queue.Edit()
	next.claims.Edit()
	return &editor{State: &next, likely: commands}
}

func (e *editor) emit(ev Event) {
	ev.Index = e.Index
	if e.events == nil {
		e.events = make([]Event, 0, e.likely)
	}
	e.events = append(e.events, ev)
}

func (e *editor) nextSeq() uint64 {
	e.Seq++
	return e.Seq
}
