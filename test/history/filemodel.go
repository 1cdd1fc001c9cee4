package history

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/stoutlock/stout/lockapi"
)

// group is the state of a group of files, of the locks that transactions take
// beside them, and of the sessions involved. Every change has a higher revision
// than all earlier ones.
type group struct {
	files []file   // sorted by path
	holds []grip   // sorted by path and holder
	ended []string // sessions
	last  uint64   // later changes have no lower revision
	of    *groupOf
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

func (g *group) certain(s *step) *group {
	switch ended := contains(g.ended, s.session); {
	case s.kind == gone:
		return where(g, ended)
	case s.kind == called:
		if ended && s.session != "" {
			return nil
		}
		return g.call(s.attempt)
	case ended:
		return g
	}
	return g.end(s.session)
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
func (g *group) call(a *Attempt) *group {
	c := a.Files
	guarded := g.holdsGuards(c)
	if a.Outcome == NotHeld {
		return where(g, guarded != yes)
	}
	if guarded == no {
		return nil
	}
	t := &branchRun{group: *g, attempt: a}
	t.files, t.holds = slices.Clone(g.files), slices.Clone(g.holds)
	succeeded := g.succeeds(c)
	failed := t.branch(succeeded)
	if a.Outcome == Refused {
		return where(g, failed >= 0 && failed == c.Operation && g.isCurrent(c, &c.branch(succeeded)[failed]))
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

// answer is the answer to a question that the group's state may not decide.
type answer int

const (
	no answer = iota
	yes
	either
)

// holdsGuards reports whether the guards of a call are held.
func (g *group) holdsGuards(c *FileCall) answer {
	all := yes
	for _, guard := range c.Guards {
		switch {
		case !g.of.locks[lockOf(guard)]:
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
func (g *group) succeeds(call *FileCall) bool {
	return !slices.ContainsFunc(call.If, func(c lockapi.Condition) bool {
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
	return g.last == o.last && slices.Equal(g.files, o.files) && slices.Equal(g.holds, o.holds) && slices.Equal(g.ended, o.ended)
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
