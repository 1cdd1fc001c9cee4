package events

import (
	"slices"
	"strings"
)

// Type is the kind of an event.
type Type uint8

// The types.
const (
	FileCreated Type = iota
	FileChanged
	FileDeleted
	LockAcquired
	LockReleased
	LockContended
	MasterChanged
)

// types has their names in the contract.
var types = [...]string{"file_created", "file_changed", "file_deleted", "lock_acquired", "lock_released", "lock_contended", "master_changed"}

func (t Type) String() string { return types[t] }

// ParseType finds the type with that name.
func ParseType(name string) (Type, bool) {
	i := slices.Index(types[:], name)
	return Type(max(i, 0)), i >= 0
}

// Filter selects events. It is immutable; the zero value passes all.
type Filter struct {
	types    uint8 // one bit for each; 0 = all
	paths    map[string]struct{}
	prefixes []string // sorted; none begins with another
}

// NewFilter returns a filter that passes events of the given types, of nodes
// that match any of the paths or prefixes. Without paths and prefixes every
// node matches; without types every type does. MasterChanged passes every
// filter, because a watcher must then check its beliefs about the master.
func NewFilter(paths, prefixes []string, types []Type) Filter {
	var f Filter
	for _, t := range types {
		f.types |= 1 << t
	}
	if len(paths) > 0 {
		f.paths = make(map[string]struct{}, len(paths))
		for _, p := range paths {
			f.paths[p] = struct{}{}
		}
	}
	for _, p := range slices.Sorted(slices.Values(prefixes)) {
		if last := len(f.prefixes) - 1; last < 0 || !strings.HasPrefix(p, f.prefixes[last]) {
			f.prefixes = append(f.prefixes, p)
		}
	}
	return f
}

// Passes reports whether the filter passes an event.
func (f *Filter) Passes(e *Event) bool {
	return e.Type == MasterChanged || (f.types == 0 || f.types&(1<<e.Type) != 0) && f.names(e.Path)
}

// names reports whether a path or a prefix matches a node. Since no prefix
// begins with another, only the last prefix that does not sort after the path
// can match.
func (f *Filter) names(path string) bool {
	if len(f.paths) == 0 && len(f.prefixes) == 0 {
		return true
	}
	if _, ok := f.paths[path]; ok {
		return true
	}
	i, equal := slices.BinarySearch(f.prefixes, path)
	return equal || i > 0 && strings.HasPrefix(path, f.prefixes[i-1])
}
