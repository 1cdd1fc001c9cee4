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

	ephemeral btree.Edit[owned, *File]
	answers   btree.Edit[string, *Answers]

	caller   string // principal for whom the present command is; empty where nobody is known
	silentMS int64  // of the session that it expires, 0 in others

	changes []Change
	likely  int // changes
}

// edit begins the change of a state by so many commands.
func edit(s *State, commands int) *editor {
	next := *s
	e := &editor{State: &next, likely: commands}
	e.own()
	return e
}

// own has the next changes of the trees leave all copies alone that were made
// before.
func (e *editor) own() {
	s := e.State
	e.sessions, e.keys = s.sessions.Edit(), s.keys.Edit()
	e.nodes, e.holds, e.queue, e.claims = s.nodes.Edit(), s.holds.Edit(), s.queue.Edit(), s.claims.Edit()
	e.ephemeral, e.answers = s.ephemeral.Edit(), s.answers.Edit()
}

// attempt does several things or, where they come to nothing, none.
func (e *editor) attempt(do func() bool) bool {
	before, told := *e.State, len(e.changes)
	e.own()
	if do() {
		return true
	}
	*e.State = before
	clear(e.changes[told:])
	e.changes = e.changes[:told]
	return false
}

// record adds to what Apply returns.
func (e *editor) record(c Change) {
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
