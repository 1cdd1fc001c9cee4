package exclusion

import (
	"fmt"
	"sync"
)

// Resource is the target of fenced writes: it keeps the highest token that it
// has seen for each path, and refuses a lower one. It is safe for concurrent
// use.
type Resource struct {
	mu       sync.Mutex
	paths    map[string]*locked
	accepted int
	refused  int
	problems []string
}

// locked is the part of the resource behind one lock.
type locked struct {
	highest uint64
	owners  map[uint64]string // by accepted token
}

// NewResource returns a resource without writes.
func NewResource() *Resource { return &Resource{paths: map[string]*locked{}} }

// Write writes in the name of owner and reports whether the write was accepted.
// valid, if not nil, reports whether the writer's hold is still valid; it is
// called before and after the write. A hold that was valid throughout and
// exclusive must not be refused: another owner gets a higher token only after
// this hold ended.
func (r *Resource) Write(path, owner string, token uint64, valid func() bool) (accepted bool) {
	sure := valid != nil && valid()
	accepted, highest := r.write(path, owner, token)
	if !accepted && sure && valid() {
		r.complain("%s was refused on %s although its hold was valid: its token is %d, and token %d had written", owner, path, token, highest)
	}
	return accepted
}

func (r *Resource) write(path, owner string, token uint64) (accepted bool, highest uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.paths[path]
	if g == nil {
		g = &locked{owners: map[uint64]string{}}
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

// Writes returns the numbers of accepted and refused writes.
func (r *Resource) Writes() (accepted, refused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted, r.refused
}

// Problems returns the violations.
func (r *Resource) Problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.problems...)
}
