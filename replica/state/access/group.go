package access

import (
	"errors"
	"iter"
	"slices"
	"strings"
)

// Members holds the members of a group: known principals and other groups,
// which need not exist. It is immutable.
type Members struct {
	Group   string   `cbor:"1,keyasint"` // its name, without "group:"
	Members []string `cbor:"2,keyasint,omitempty"`
}

// Sound reports whether the group is valid.
func (g *Members) Sound() bool { return IsName(g.Group) && sound(g.Members, IsMember) }

// Same reports whether two groups have the same members in the same order.
func (g *Members) Same(other *Members) bool {
	return g.Group == other.Group && slices.Equal(g.Members, other.Members)
}

// Errors of a change.
var (
	ErrCycle = errors.New("the group would be a member of itself")
	ErrFull  = errors.New("the policy is full")
)

// group is a group with its own name and the names of all groups that contain
// it, at any depth, sorted.
type group struct {
	*Members
	self []string
}

// Group finds a group by its name.
func (p *Policy) Group(name string) (*Members, bool) {
	g, ok := p.groups.Get(name)
	if !ok {
		return nil, false
	}
	return g.Members, true
}

// Groups walks the groups with names after the given one, in name order.
func (p *Policy) Groups(after string) iter.Seq[*Members] {
	return func(yield func(*Members) bool) {
		for g := range p.groups.From(after) {
			if g.Group > after && !yield(g.Members) {
				return
			}
		}
	}
}

// GroupCount returns the number of groups.
func (p *Policy) GroupCount() int { return p.groups.Len() }

// PutGroup returns the policy with the group, which replaces one of the same
// name. The errors are ErrCycle and ErrFull.
func (p *Policy) PutGroup(g *Members) (*Policy, error) {
	var before []string
	was, there := p.groups.Get(g.Group)
	switch {
	case there:
		before = was.Members.Members
	case p.groups.Len() >= MaxGroups:
		return nil, ErrFull
	}
	above := p.within(Group(g.Group))
	for _, m := range g.Members {
		name, isGroup := strings.CutPrefix(m, groupPrefix)
		if _, inside := slices.BinarySearch(above, name); isGroup && (inside || name == g.Group) {
			return nil, ErrCycle
		}
	}
	out := *p
	if there {
		out.size -= was.Members.Size()
	}
	out.size += g.Size()
	c := out.change()
	c.rejoin(g.Group, before, g.Members, &group{Members: g})
	if out.reach > MaxReach {
		return nil, ErrFull
	}
	return &out, nil
}

// DropGroup returns the policy without a group. Rules and groups that name it
// keep the name, which then matches no principal.
func (p *Policy) DropGroup(name string) *Policy {
	was, there := p.groups.Get(name)
	if !there {
		return p
	}
	out := *p
	out.size -= was.Members.Size()
	c := out.change()
	c.rejoin(name, was.Members.Members, nil, nil)
	return &out
}
