package access

import (
	"slices"
	"strings"

	"github.com/stoutlock/stout/replica/state/internal/btree"
)

// standing is in which groups a principal or a group is. It is immutable.
type standing struct {
	of     string   // as lists name it
	direct []string // that have it as a member, by name, sorted
	all    []string // those, and the groups that they are in; of a single one its own list
}

// cost is how many entries it has that no group has.
func (m *standing) cost() int {
	if m == nil || len(m.direct) < 2 {
		return 0
	}
	return len(m.all)
}

// within is in which groups someone is, at any depth, sorted.
func (p *Policy) within(who string) []string {
	m, ok := p.standings.Get(who)
	if !ok {
		return nil
	}
	return m.all
}

// change is a change of the members of a group. The policy is not shared yet.
type change struct {
	*Policy
	groups    btree.Edit[string, *group]
	standings btree.Edit[string, *standing]
	stale     map[string]bool // whose groups at any depth have to be found anew
	order     []string        // in which they were found to be; the result does not depend on it
}

func (p *Policy) change() *change {
	return &change{Policy: p, groups: p.groups.Edit(), standings: p.standings.Edit(), stale: map[string]bool{}}
}

// rejoin has the members of a group be others, and the group be g; nil for none.
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

// with is a sorted list with one more name, and without is it with one less.
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

func (c *change) setDirect(who string, to func([]string) []string) {
	next := &standing{of: who}
	if m, ok := c.standings.Get(who); ok {
		*next = *m
		c.reach -= m.cost()
	}
	next.direct = to(next.direct)
	c.reach += next.cost()
	c.standings.Put(who, next)
	c.mark(who)
}

// mark marks someone and, of a group, all that are in it.
func (c *change) mark(who string) {
	if c.stale[who] {
		return
	}
	c.stale[who] = true
	c.order = append(c.order, who)
	if name, isGroup := strings.CutPrefix(who, groupPrefix); isGroup {
		if g, ok := c.groups.Get(name); ok {
			for _, m := range g.Members.Members {
				c.mark(m)
			}
		}
	}
}

// renew finds the groups of someone, after those of the groups that have it.
func (c *change) renew(who string) {
	if !c.stale[who] {
		return
	}
	c.stale[who] = false
	m, _ := c.standings.Get(who)
	c.reach -= m.cost()
	next := &standing{of: who, direct: m.direct}
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
		c.standings.Delete(who)
	} else {
		c.standings.Put(who, next)
	}
	name, isGroup := strings.CutPrefix(who, groupPrefix)
	if g, there := c.groups.Get(name); isGroup && there {
		own := &group{g.Members, with(next.all, name)}
		c.reach += len(own.self) - len(g.self)
		c.groups.Put(name, own)
	}
}
