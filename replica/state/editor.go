package state

import "github.com/stoutlock/stout/replica/state/internal/btree"

// editor makes the next state: a copy with trees that share every unchanged
// node with the state before. Only an editor can change a state.
type editor struct {
	*State
	sessions btree.Edit[string, *Session]
	keys     btree.Edit[string, *Session]
	nodes    btree.Edit[string, *Node]
	holds    btree.Edit[numbered, *Hold]
	queue    btree.Edit[numbered, *Wait]
	handles  btree.Edit[HandleKey, holdOrWait]

	ephemeral btree.Edit[owned, *File]
	answers   btree.Edit[string, *Answers]

	caller   string // principal of the present command; empty if unknown
	silentMS int64  // of the session that the command expires, else 0

	changes []Change
	likely  int // expected number of changes
}

// edit begins a change of s by a number of commands.
func edit(s *State, commands int) *editor {
	next := *s
	e := &editor{State: &next, likely: commands}
	e.own()
	return e
}

// own starts new edits of the trees, so that later changes leave earlier copies
// of the state alone.
func (e *editor) own() {
	s := e.State
	e.sessions, e.keys = s.sessions.Edit(), s.keys.Edit()
	e.nodes, e.holds, e.queue, e.handles = s.nodes.Edit(), s.holds.Edit(), s.queue.Edit(), s.handles.Edit()
	e.ephemeral, e.answers = s.ephemeral.Edit(), s.answers.Edit()
}

// attempt runs do, and undoes its changes if do returns false.
func (e *editor) attempt(do func() bool) bool {
	before, changed := *e.State, len(e.changes)
	e.own()
	if do() {
		return true
	}
	*e.State = before
	clear(e.changes[changed:])
	e.changes = e.changes[:changed]
	return false
}

// record appends to the changes that Apply returns.
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

// nextRevision numbers a change that watchers receive.
func (e *editor) nextRevision() uint64 {
	e.Revision++
	return e.Revision
}
