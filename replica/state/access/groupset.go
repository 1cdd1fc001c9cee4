package access

import (
	"slices"
	"strings"

	"github.com/stoutlock/stout/replica/state/internal/btree"
)

// groupSet holds the groups of a principal or a group. It is immutable.
type groupSet struct {
	of     string   // as lists name it
	direct []string // names of the groups that it is a direct member of, sorted
	all    []string // names of all its groups, at any depth; shared with the group if there is only one
}

// cost returns the number of entries that the groupSet does not share with a
// group.
func (m *groupSet) cost() int {
	if m == nil || len(m.direct) < 2 {
		return 0
	}
	return len(m.all)
}

// within returns the groups of a principal or a group, at any depth, sorted.
func (p *Policy) within(entry string) []string {
	m, ok := p.groupSets.Get(entry)
	if !ok {
		return nil
	}
	return m.all
}

// change is a change of a group's members. Its policy is not shared yet.
type change struct {
	*Policy
	groups    btree.Edit[string, *group]
	groupSets btree.Edit[string, *groupSet]
	stale     map[string]bool // principals and groups to compute again
	order     []string        // the order in which they were marked; it does not affect the result
}

func (p *Policy) change() *change {
	return &change{Policy: p, groups: p.groups.Edit(), groupSets: p.groupSets.Edit(), stale: map[string]bool{}}
}

// rejoin replaces the members of a group, and the group by g, which is nil if
// it is removed.
func (c *change) rejoin(name string, before, after []string, g *group) {
	if was, ok := c.groups.Get(name); ok {
		c.reach -= len(was.self)
	}
	c.groups.Delete(name)
	before, after = set(before), set(after)
	if g != nil {
		g.self = with(c.within(Group(name)), name)
		c.reach += len(g.self)
		c.groups.Put(name, g)
	}
	for _, m := range before {
		if _, stays := slices.BinarySearch(after, m); !stays {
			c.setDirect(m, func(direct []string) []string { return without(direct, name) })
		}
	}
	for _, m := range after {
		if _, stayed := slices.BinarySearch(before, m); !stayed {
			c.setDirect(m, func(direct []string) []string { return with(direct, name) })
		}
	}
	for _, m := range c.order {
		c.renew(m)
	}
}

func set(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

// with adds a name to a copy of a sorted list; without removes one.
func with(list []string, name string) []string {
	i, there := slices.BinarySearch(list, name)
	if there {
		return list
	}
	out := make([]string, 0, len(list)+1)
	out = append(append(out, list[:i]...), name)
	return append(out, list[i:]...)
}

func without(list []string, name string) []string {
	i, there := slices.BinarySearch(list, name)
	if !there {
		return list
	}
	return slices.Delete(slices.Clone(list), i, i+1)
}

func (c *change) setDirect(entry string, to func([]string) []string) {
	next := &groupSet{of: entry}
	if m, ok := c.groupSets.Get(entry); ok {
		*next = *m
		c.reach -= m.cost()
	}
	next.direct = to(next.direct)
	c.reach += next.cost()
	c.groupSets.Put(entry, next)
	c.mark(entry)
}

// mark marks a principal or a group, and all members of a group, as stale.
func (c *change) mark(entry string) {
	if c.stale[entry] {
		return
	}
	c.stale[entry] = true
	c.order = append(c.order, entry)
	if name, isGroup := strings.CutPrefix(entry, groupPrefix); isGroup {
		if g, ok := c.groups.Get(name); ok {
			for _, m := range g.Members.Members {
				c.mark(m)
			}
		}
	}
}

// renew computes the groups of a principal or a group. It first renews the
// groups that contain it.
func (c *change) renew(entry string) {
	if !c.stale[entry] {
		return
	}
	c.stale[entry] = false
	m, _ := c.groupSets.Get(entry)
	c.reach -= m.cost()
	next := &groupSet{of: entry, direct: m.direct}
	for _, name := range next.direct {
		c.renew(Group(name))
		above, _ := c.groups.Get(name)
		if len(next.direct) == 1 {
			next.all = above.self
			break
		}
		next.all = append(next.all, above.self...)
	}
	if len(next.direct) > 1 {
		slices.Sort(next.all)
		next.all = slices.Clip(slices.Compact(next.all))
	}
	c.reach += next.cost()
	if len(next.direct) == 0 {
		c.groupSets.Delete(entry)
	} else {
		c.groupSets.Put(entry, next)
	}
	name, isGroup := strings.CutPrefix(entry, groupPrefix)
	if g, there := c.groups.Get(name); isGroup && there {
		own := &group{g.Members, with(next.all, name)}
		c.reach += len(own.self) - len(g.self)
		c.groups.Put(name, own)
	}
}
