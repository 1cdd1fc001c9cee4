package state

import "github.com/stoutlock/stout/replica/state/internal/btree"

// editor makes the next state: a copy, whose trees share all nodes with those
// of the state before until they are changed. Only an editor can change one.
type editor struct {
	*State
	sessions btree.Edit[string, *Session]
	keys     btree.Edit[string, *Session]
	nodes    btree.Edit[string, *Node]
	holds    btree.Edit[numbered, *Hold]
	queue    btree.Edit[numbered, *Wait]
	claims   btree.Edit[claimKey, claim]

	changes []Change
	likely  int // changes
}

// edit begins the change of a state by so many commands.
func edit(s *State, commands int) *editor {
	next := *s
	return &editor{
		State: &next, likely: commands,
		sessions: next.sessions.Edit(), keys: next.keys.Edit(), nodes: next.nodes.Edit(),
		holds: next.holds.Edit(), queue: next.queue.Edit(), claims: next.claims.Edit(),
	}
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
