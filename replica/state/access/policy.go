package access

import (
	"iter"
	"slices"
	"strings"

	"github.com/stoutlock/stout/replica/state/internal/btree"
)

// CellRules holds the two lists for the cell as a whole. It is immutable.
type CellRules struct {
	Observe []string `cbor:"1,keyasint,omitempty"` // may see the cell, its members and its sessions
	Operate []string `cbor:"2,keyasint,omitempty"` // may do everything
}

// Sound reports whether the lists are valid.
func (c *CellRules) Sound() bool { return sound(c.Observe, IsEntry) && sound(c.Operate, IsEntry) }

// Same reports whether the lists are the same, in the same order.
func (c *CellRules) Same(other *CellRules) bool {
	return slices.Equal(c.Observe, other.Observe) && slices.Equal(c.Operate, other.Operate)
}

// Policy holds the rules, groups, quotas and lists of a cell. New returns the first
// one.
type Policy struct {
	cell             CellRules
	observe, operate *list
	rules            btree.Tree[string, *Rule] // by path
	root             *place                    // the same, by segments; nil if there are no rules
	groups           btree.Tree[string, *group]
	groupSets        btree.Tree[string, *groupSet]
	quotas           btree.Tree[string, *Quota] // by the principal or group, as lists name it
	reach            int                        // number of entries in groups and groupSets
	open             int                        // rules that name Anonymous
	size             int64
}

// Size estimates the memory of the rules, groups and quotas, in bytes.
func (p *Policy) Size() int64 { return p.size }

// Estimates in bytes; a test of package master measures them.
const (
	ruleBytes   = 600
	entryBytes  = 50 // of each entry of its lists, besides the text
	groupBytes  = 200
	memberBytes = 110 // of each member, besides the text
)

// Size estimates the memory of the rule in a policy, in bytes.
func (r *Rule) Size() int64 {
	n := ruleBytes + len(r.Path) + len(r.Principal)
	for _, p := range Permissions {
		n += listBytes(r.Lists[p], entryBytes)
	}
	return int64(n)
}

// Size estimates the memory of the group in a policy, in bytes.
func (g *Members) Size() int64 {
	return int64(groupBytes + len(g.Group) + listBytes(g.Members, memberBytes))
}

func listBytes(list []string, each int) int {
	n := each * len(list)
	for _, entry := range list {
		n += len(entry)
	}
	return n
}

// New returns a policy in which only Root may do anything.
func New() *Policy {
	return &Policy{
		rules:     btree.New(func(path string, r *Rule) int { return strings.Compare(path, r.Path) }),
		groups:    btree.New(func(name string, g *group) int { return strings.Compare(name, g.Group) }),
		groupSets: btree.New(func(entry string, m *groupSet) int { return strings.Compare(entry, m.of) }),
		quotas:    btree.New(func(of string, q *Quota) int { return strings.Compare(of, q.Of) }),
	}
}

// Cell returns the lists of the cell as a whole.
func (p *Policy) Cell() CellRules { return p.cell }

// PutCell returns the policy with other lists of the cell.
func (p *Policy) PutCell(c CellRules) *Policy {
	out := *p
	out.cell, out.observe, out.operate = c, ready(c.Observe), ready(c.Operate)
	return &out
}

// Rule finds the rule at a path.
func (p *Policy) Rule(path string) (*Rule, bool) { return p.rules.Get(path) }

// Rules walks the rules with paths that have the given string prefix and sort
// after the given path, in bytewise order.
func (p *Policy) Rules(prefix, after string) iter.Seq[*Rule] {
	return func(yield func(*Rule) bool) {
		for r := range p.rules.From(max(prefix, after)) {
			if !strings.HasPrefix(r.Path, prefix) {
				return
			}
			if r.Path > after && !yield(r) {
				return
			}
		}
	}
}

// RuleCount returns the number of rules.
func (p *Policy) RuleCount() int { return p.rules.Len() }

// PutRule returns the policy with the rule, which replaces one at its path. The
// error is ErrFull.
func (p *Policy) PutRule(r *Rule) (*Policy, error) {
	was, there := p.rules.Get(r.Path)
	if !there && p.rules.Len() >= MaxRules {
		return nil, ErrFull
	}
	out := *p
	out.open = p.openWith(r.Path, r)
	if there {
		out.size -= was.Size()
	}
	out.size += r.Size()
	out.rules.Edit().Put(r.Path, r)
	if out.root == nil {
		out.root = new(place)
	}
	out.root = out.root.with(r.Path, r)
	return &out, nil
}

// DropRule returns the policy without the rule at a path.
func (p *Policy) DropRule(path string) *Policy {
	was, there := p.rules.Get(path)
	if !there {
		return p
	}
	out := *p
	out.open = p.openWith(path, nil)
	out.size -= was.Size()
	out.rules.Edit().Delete(path)
	out.root = out.root.with(path, nil)
	return &out
}

// openWith counts the rules that name Anonymous after r has replaced the rule
// at a path. If r is nil, the rule is removed.
func (p *Policy) openWith(path string, r *Rule) int {
	n := p.open
	if was, there := p.rules.Get(path); there && was.namesAnonymous() {
		n--
	}
	if r != nil && r.namesAnonymous() {
		n++
	}
	return n
}

// NamesAnonymous reports whether any list names Anonymous. If not, a caller
// without a credential may do nothing.
func (p *Policy) NamesAnonymous() bool {
	return p.open > 0 || p.observe.has(Anonymous, nil) || p.operate.has(Anonymous, nil)
}

// HasRules reports whether any rule's path has the given string prefix.
func (p *Policy) HasRules(prefix string) bool {
	for range p.Rules(prefix, "") {
		return true
	}
	return false
}

// DropRules returns the policy without the rules below a directory. For "/" it
// drops all but the root's. The rule at the directory itself stays.
func (p *Policy) DropRules(dir string) *Policy {
	out := *p
	rules := out.rules.Edit()
	for r := range p.Rules(strings.TrimSuffix(dir, "/")+"/", dir) {
		out.size -= r.Size()
		if r.namesAnonymous() {
			out.open--
		}
		rules.Delete(r.Path)
	}
	if out.size == p.size {
		return p
	}
	out.root = out.root.bare(dir)
	return &out
}

// Decision reports whether a principal may do something, and the rule that
// decided.
type Decision struct {
	Allowed bool
	// Rule is the rule that decided. It is nil if the list operate decided, or
	// if no rule names the permission.
	Rule *Rule
}

// May decides whether a principal has a permission at a path.
func (p *Policy) May(principal string, perm Permission, path string) Decision {
	groups := p.within(principal)
	if p.operates(principal, groups) {
		return Decision{Allowed: true}
	}
	if !perm.valid() {
		return Decision{}
	}
	rule, of := p.root.nearest(path, perm)
	return Decision{Allowed: of.has(principal, groups), Rule: rule}
}

// MayBelow decides whether a principal has a permission at a directory and
// everywhere below it, under all rules there.
func (p *Policy) MayBelow(principal string, perm Permission, dir string) bool {
	if !p.May(principal, perm, dir).Allowed {
		return false
	}
	groups := p.within(principal)
	if p.operates(principal, groups) {
		return true
	}
	return p.root.at(dir).allow(func(n *place) bool { return n.lists[perm] == nil || n.lists[perm].has(principal, groups) })
}

// Operates reports whether a principal may do everything.
func (p *Policy) Operates(principal string) bool { return p.operates(principal, p.within(principal)) }

func (p *Policy) operates(principal string, groups []string) bool {
	return principal == Root || p.operate.has(principal, groups)
}

// Observes reports whether a principal may see the cell, its members and its
// sessions.
func (p *Policy) Observes(principal string) bool {
	groups := p.within(principal)
	return p.operates(principal, groups) || p.observe.has(principal, groups)
}
