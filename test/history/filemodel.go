package history

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/stoutlock/stout/lockapi"
)

// fileStepKind is a kind of step of a group of files and locks.
type fileStepKind int

const (
	callMade       fileStepKind = iota // a call was made, with the outcome of its attempt
	sessionMissing                     // a call finds that a session has ended
	sessionEnded                       // a session ends
	recordOver                         // the record ends: possible effects that have not happened never will
)

// fileStep is one step, as porcupine's input.
type fileStep struct {
	kind    fileStepKind
	unsure  bool // it may have happened, or not
	session string
	attempt *Attempt
	locks   map[string]bool              // the group's; grants of other locks are not in the state
	seen    map[string]*lockapi.FileStat // by checksum of the content: files in any answer
}

func (s *fileStep) optional() bool { return s.unsure }

// group is the state of the model: files, and the locks that transactions take
// beside them. Values are immutable.
type group struct {
	files []file   // sorted by path
	holds []grip   // sorted by path and holder
	ended []string // sessions
	last  uint64   // later changes have no lower revision
	over  bool     // the record has ended
}

// file is a file in the model. If no answer showed the write, the revision and
// everything derived from it are 0.
type file struct {
	path               string
	revision, instance uint64
	generation         uint64
	sum, session       string
}

// grip is one pair's hold of a lock in the model. A token that no answer showed
// is 0.
type grip struct {
	path, session, handle string
	token                 uint64
	shared                bool
}

func (h *grip) compare(o *grip) int {
	return cmp.Or(cmp.Compare(h.path, o.path), cmp.Compare(h.session, o.session), cmp.Compare(h.handle, o.handle))
}

func (h *grip) mode() lockapi.Mode {
	if h.shared {
		return lockapi.Shared
	}
	return lockapi.Exclusive
}

// fileModel models a group of files and locks, and the sessions involved. Every
// change has a higher revision than all earlier ones.
var fileModel = porcupine.Model{
	Init: func() any { return &group{} },
	Step: func(state, in, _ any) (bool, any) {
		next := state.(*group).step(in.(*fileStep))
		if next == nil {
			return false, state
		}
		return true, next
	},
	Equal:             func(a, b any) bool { return a.(*group).equal(b.(*group)) },
	Hash:              func(s any) uint64 { return s.(*group).hash() },
	DescribeOperation: func(in, _ any) string { return in.(*fileStep).String() },
	DescribeState:     func(s any) string { return s.(*group).String() },
}

// step returns the group after s, or nil if s cannot happen. As with locks, an
// uncertain step happens where it changes something, or after the record.
func (g *group) step(s *fileStep) *group {
	switch {
	case s.kind == recordOver:
		n := *g
		n.over = true
		return &n
	case !s.unsure:
		return g.certain(s)
	case g.over:
		return g
	}
	next := g.certain(s)
	if next == nil || next.equal(g) {
		return nil
	}
	return next
}

// certain returns the group after s, which has happened.
func (g *group) certain(s *fileStep) *group {
	gone := contains(g.ended, s.session)
	switch s.kind {
	case sessionMissing:
		if !gone {
			return nil
		}
		return g
	case sessionEnded:
		if gone {
			return g
		}
		return g.end(s.session)
	}
	if gone && s.session != "" {
		return nil
	}
	return g.call(s)
}

// end ends a session with its holds and its ephemeral files.
func (g *group) end(session string) *group {
	n := *g
	n.ended = with(g.ended, session)
	n.files = slices.DeleteFunc(slices.Clone(g.files), func(f file) bool { return f.session == session })
	n.holds = slices.DeleteFunc(slices.Clone(g.holds), func(h grip) bool { return h.session == session })
	return &n
}

// call returns the group after a call with the outcome of its attempt.
func (g *group) call(s *fileStep) *group {
	c := s.attempt.Files
	guarded := g.holdsGuards(s)
	if s.attempt.Outcome == NotHeld {
		return g.where(guarded != yes)
	}
	if guarded == no {
		return nil
	}
	t := &branchRun{group: *g, step: s}
	t.files, t.holds = slices.Clone(g.files), slices.Clone(g.holds)
	succeeded := g.succeeds(s)
	failed := t.branch(succeeded)
	if s.attempt.Outcome == Refused {
		return g.where(failed >= 0 && failed == c.Operation && g.isCurrent(c, &c.branch(succeeded)[failed]))
	}
	if c.Below != "" {
		t.below()
	}
	if failed >= 0 || t.wrong {
		return nil
	}
	if r := c.Result; r != nil && r.Revision != 0 {
		if r.Revision < t.last {
			return nil
		}
		t.last = r.Revision
	}
	return &t.group
}

func (g *group) where(ok bool) *group {
	if !ok {
		return nil
	}
	return g
}

// answer is the answer to a question that the group's state may not decide.
type answer int

const (
	no answer = iota
	yes
	either
)

// holdsGuards reports whether the guards of a call are held.
func (g *group) holdsGuards(s *fileStep) answer {
	all := yes
	for _, guard := range s.attempt.Files.Guards {
		switch {
		case !s.locks[lockOf(guard)]:
			all = either
		case !g.held(guard):
			return no
		}
	}
	return all
}

func (g *group) held(sequencer string) bool {
	q, err := lockapi.ParseSequencer(sequencer)
	return err == nil && slices.ContainsFunc(g.holdersOf(q.Path), func(h grip) bool { return h.token == q.Token && h.mode() == q.Mode })
}

// succeeds reports whether the conditions of a transaction hold.
func (g *group) succeeds(s *fileStep) bool {
	return !slices.ContainsFunc(s.attempt.Files.If, func(c lockapi.Condition) bool {
		at, found := g.find(c.File)
		switch {
		case c.Revision != nil:
			return !found || g.files[at].revision != *c.Revision
		case c.Exists != nil:
			return found != *c.Exists
		case c.Sequencer != "":
			return !g.held(c.Sequencer)
		case c.Lock != "":
			return len(g.holdersOf(c.Lock)) > 0
		}
		return contains(g.ended, c.Session)
	})
}

// isCurrent reports whether a refusal shows the file that blocks an operation.
func (g *group) isCurrent(c *FileCall, op *lockapi.Operation) bool {
	at, found := g.find(pathOf(op))
	if op.Acquire != nil || !found {
		return c.Current == nil
	}
	return c.Current != nil && g.files[at].is(&c.Current.FileStat)
}

func (f *file) is(s *lockapi.FileStat) bool {
	return f.path == s.Path && f.revision == s.Revision && f.instance == s.Instance && f.generation == s.Generation && f.sum == s.SHA256 && f.session == s.Session
}

func (g *group) find(path string) (at int, found bool) {
	return slices.BinarySearchFunc(g.files, path, func(f file, path string) int { return compare(f.path, path) })
}

// hold returns the index of a pair's hold, or where it would be.
func (g *group) hold(of *grip) (at int, found bool) {
	return slices.BinarySearchFunc(g.holds, of, func(h grip, of *grip) int { return h.compare(of) })
}

// holdersOf returns the holds of a lock.
func (g *group) holdersOf(path string) []grip {
	from, _ := g.hold(&grip{path: path})
	to := from
	for to < len(g.holds) && g.holds[to].path == path {
		to++
	}
	return g.holds[from:to]
}

func (g *group) equal(o *group) bool {
	return g == o || g.last == o.last && g.over == o.over && slices.Equal(g.files, o.files) && slices.Equal(g.holds, o.holds) && slices.Equal(g.ended, o.ended)
}

func (g *group) hash() uint64 {
	h := g.last
	for i := range g.files {
		h = h*31 + g.files[i].revision + maphash.String(seed, g.files[i].sum)
	}
	for i := range g.holds {
		h = h*31 + maphash.String(seed, g.holds[i].session+g.holds[i].path)
	}
	return h*31 + uint64(len(g.ended))
}
