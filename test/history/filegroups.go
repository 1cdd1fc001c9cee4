package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// groupOf is a set of files and locks that calls tie together, with these
// calls.
type groupOf struct {
	name     string // the first of the paths
	attempts []*Attempt
	locks    map[string]bool // grants of other locks are not in the state
	seen     map[string]*seenFile
}

// groups partitions the calls about files so that the groups are independent. A
// file is a group by itself unless a transaction names it beside others, or a
// call is about a directory above it. The attempts are in the order of their
// calls.
func groups(attempts []*Attempt) []*groupOf {
	parents, locks, dirs := map[string]string{}, map[string]bool{}, map[string]bool{}
	var root func(path string) string
	root = func(path string) string {
		if parents[path] == "" || parents[path] == path {
			return path
		}
		parents[path] = root(parents[path])
		return parents[path]
	}
	calls := slices.DeleteFunc(slices.Clone(attempts), func(a *Attempt) bool { return a.Files == nil })
	seen := sightings(calls)
	for _, a := range calls {
		for op := range a.Files.operations() {
			if op.Acquire != nil || op.Release != nil {
				locks[pathOf(op)] = true
			}
		}
		if a.Files.Below != "" {
			dirs[a.Files.Below] = true
		}
	}
	nodes := make([][]string, len(calls))
	for i, a := range calls {
		nodes[i] = a.Files.nodes()
		for content := range a.Files.contents() {
			if f := seen[content]; f != nil {
				nodes[i] = append(nodes[i], f.stat.Path)
			}
		}
		for _, guard := range a.Files.Guards {
			if lock := lockOf(guard); locks[lock] {
				nodes[i] = append(nodes[i], lock)
			}
		}
		for _, path := range nodes[i] {
			for dir := range dirs {
				if strings.HasPrefix(path, dir) && !locks[path] {
					nodes[i] = append(nodes[i], dir)
				}
			}
		}
		for _, path := range nodes[i] {
			first, other := root(nodes[i][0]), root(path)
			parents[max(first, other)] = min(first, other)
		}
	}
	all := map[string]*groupOf{}
	for i, a := range calls {
		if len(nodes[i]) == 0 {
			continue // a sequential file that was never seen
		}
		name := root(nodes[i][0])
		if all[name] == nil {
			all[name] = &groupOf{name: name, locks: map[string]bool{}}
		}
		all[name].attempts = append(all[name].attempts, a)
		for _, path := range nodes[i] {
			if locks[path] {
				all[name].locks[path] = true
			}
		}
	}
	for _, g := range all {
		g.seen = sightings(g.attempts)
	}
	return slices.SortedFunc(maps.Values(all), func(x, y *groupOf) int { return cmp.Compare(x.name, y.name) })
}
