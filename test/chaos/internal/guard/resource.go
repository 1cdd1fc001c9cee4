package guard

import (
	"fmt"
	"sync"
)

// Resource is what fenced clients write to: it keeps the highest token that it
// has seen for each path and refuses a lower one. It is safe for concurrent
// use.
type Resource struct {
	mu       sync.Mutex
	paths    map[string]*guarded
	accepted int
	refused  int
	problems []string
}

// guarded is what lies behind one lock.
type guarded struct {
	highest uint64
	owners  map[uint64]string // of accepted tokens
}

// NewResource makes one that nobody has written to.
func NewResource() *Resource { return &Resource{paths: map[string]*guarded{}} }

// Write writes in the name of owner, and reports whether that was accepted. A
// writer that can tell whether its hold is good gives valid, else nil: valid is
// asked before and after, and a hold that was good all the while and exclusive
// must not have been refused, because a higher token was granted to somebody
// else only after it ended.
func (r *Resource) Write(path, owner string, token uint64, valid func() bool) (accepted bool) {
	sure := valid != nil && valid()
	accepted, highest := r.write(path, owner, token)
	if !accepted && sure && valid() {
		r.complain("%s was refused on %s although its hold was good: its token is %d, and %d had written", owner, path, token, highest)
	}
	return accepted
}

func (r *Resource) write(path, owner string, token uint64) (accepted bool, highest uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.paths[path]
	if g == nil {
		g = &guarded{owners: map[uint64]string{}}
		r.paths[path] = g
	}
	if token < g.highest {
		r.refused++
		return false, g.highest
	}
	if first, known := g.owners[token]; known && first != owner {
		r.problems = append(r.problems, fmt.Sprintf("%s and %s wrote to %s with the same token %d", first, owner, path, token))
	}
	g.highest, g.owners[token] = token, owner
	r.accepted++
	return true, token
}

func (r *Resource) complain(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// Writes is how many writes were accepted and refused.
func (r *Resource) Writes() (accepted, refused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted, r.refused
}

// Problems is what must not have happened.
func (r *Resource) Problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.problems...)
}
