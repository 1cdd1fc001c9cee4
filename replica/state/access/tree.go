package access

import (
	"slices"
	"strings"
)

// place is a node of the tree of rules: a segment of a path, with the rule
// there, if any. It is immutable.
type place struct {
	segment string
	lists   [len(Permissions) + 1]*list // by permission; nil if the rule does not name it
	rule    *Rule                       // nil if there is no rule here
	below   []*place                    // by segment
}

// find returns the index of a segment among those below, or where it would be.
func (n *place) find(segment string) (int, bool) {
	return slices.BinarySearchFunc(n.below, segment, func(p *place, s string) int { return strings.Compare(p.segment, s) })
}

// next splits the first segment off a path.
func next(path string) (segment, rest string) {
	path = path[1:]
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// with returns the tree with a rule at a path below n; a nil rule removes the
// one there. The result is nil if the tree is empty.
func (n *place) with(path string, rule *Rule) *place {
	out := *n
	if path == "" || path == "/" {
		out.rule, out.lists = rule, [len(out.lists)]*list{}
		if rule != nil {
			for _, p := range Permissions {
				if entries, named := rule.Lists[p]; named {
					out.lists[p] = ready(entries)
				}
			}
		}
	} else {
		segment, rest := next(path)
		out.below = n.belowWith(segment, rest, rule)
	}
	if out.rule == nil && len(out.below) == 0 {
		return nil
	}
	return &out
}

// belowWith returns the places below n after a change of the rule at the rest
// of a path, below a segment.
func (n *place) belowWith(segment, rest string, rule *Rule) []*place {
	i, found := n.find(segment)
	child := &place{segment: segment}
	if found {
		child = n.below[i]
	}
	child = child.with(rest, rule)
	switch {
	case !found && child == nil:
		return n.below
	case child == nil:
		return slices.Delete(slices.Clone(n.below), i, i+1)
	case found:
		below := slices.Clone(n.below)
		below[i] = child
		return below
	}
	below := make([]*place, 0, len(n.below)+1)
	below = append(append(below, n.below[:i]...), child)
	return append(below, n.below[i:]...)
}

// bare returns the tree without the rules below a path. The result is nil if
// the tree is empty.
func (n *place) bare(path string) *place {
	out := *n
	if path == "" || path == "/" {
		out.below = nil
	} else {
		segment, rest := next(path)
		i, found := n.find(segment)
		if !found {
			return n
		}
		if child := n.below[i].bare(rest); child != nil {
			out.below = slices.Clone(n.below)
			out.below[i] = child
		} else {
			out.below = slices.Delete(slices.Clone(n.below), i, i+1)
		}
	}
	if out.rule == nil && len(out.below) == 0 {
		return nil
	}
	return &out
}

// nearest returns the nearest rule upward from a path that names a permission,
// and its list. Both are nil if no rule does.
func (n *place) nearest(path string, p Permission) (rule *Rule, of *list) {
	if path == "/" {
		path = ""
	}
	for n != nil {
		if l := n.lists[p]; l != nil {
			rule, of = n.rule, l
		}
		if path == "" {
			break
		}
		var segment string
		segment, path = next(path)
		i, found := n.find(segment)
		if !found {
			break
		}
		n = n.below[i]
	}
	return rule, of
}

// at returns the place of a path. It is nil if no rule is there or below.
func (n *place) at(path string) *place {
	for path != "" && path != "/" && n != nil {
		var segment string
		segment, path = next(path)
		i, found := n.find(segment)
		if !found {
			return nil
		}
		n = n.below[i]
	}
	return n
}

// allow reports whether does holds for n and all places below it.
func (n *place) allow(does func(*place) bool) bool {
	if n == nil {
		return true
	}
	return does(n) && !slices.ContainsFunc(n.below, func(p *place) bool { return !p.allow(does) })
}
