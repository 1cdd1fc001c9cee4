package access_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/replica/state/access"
)

// The fuzz test draws from few names, so that they meet.
var (
	users   = []string{"user:a", "user:b", "user:c", "user:root", "anonymous"}
	groups  = []string{"g", "h", "i", "j", "k"}
	entries = []string{"user:a", "user:b", "user:c", "group:g", "group:h", "group:i", "group:j", "group:k", "*", "anonymous"}
	places  = []string{"/", "/a", "/a/b", "/a/b/c", "/a/bb", "/ab", "/b", "/b/a", "/a-b"}
	asked   = append([]string{"/a/b/c/d", "/a/bc", "/abc", "/z", "/b/a/b"}, places...)
)

// TestAsNaive compares the policy with the naive one after every change, and
// each policy with what it was before, which no change may touch.
func TestAsNaive(t *testing.T) {
	rapid.Check(t, asNaive)
}

func FuzzAsNaive(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(asNaive))
}

func asNaive(t *rapid.T) {
	p, n := access.New(), newNaive()
	var earlier []*access.Policy
	var said []string
	for range rapid.IntRange(1, 12).Draw(t, "changes") {
		earlier, said = append(earlier, p), append(said, everything(p))
		p = change(t, p, n)
		compare(t, p, n)
	}
	for i, was := range earlier {
		if now := everything(was); now != said[i] {
			t.Fatalf("a later change has changed policy %d from\n%s to\n%s", i, said[i], now)
		}
	}
	checkRebuilt(t, p)
}

func drawList(t *rapid.T, from []string) []string {
	return rapid.SliceOfN(rapid.SampledFrom(from), 0, 4).Draw(t, "list")
}

// change makes one change to both.
func change(t *rapid.T, p *access.Policy, n *naive) *access.Policy {
	switch rapid.SampledFrom([]string{"rule", "rule", "group", "group", "group", "drop rule", "drop group", "cell"}).Draw(t, "change") {
	case "rule":
		r := &access.Rule{Path: rapid.SampledFrom(places).Draw(t, "path"), Lists: map[access.Permission][]string{}}
		for _, perm := range access.Permissions {
			if rapid.Bool().Draw(t, perm.String()) {
				r.Lists[perm] = drawList(t, entries)
			}
		}
		if !r.Sound() {
			t.Fatalf("%v is refused", r)
		}
		n.rules[r.Path] = r.Lists
		return must(t)(p.PutRule(r))
	case "drop rule":
		path := rapid.SampledFrom(places).Draw(t, "path")
		delete(n.rules, path)
		return p.DropRule(path)
	case "group":
		g := &access.Members{Group: rapid.SampledFrom(groups).Draw(t, "group"), Members: drawList(t, entries[:8])}
		next, err := p.PutGroup(g)
		if circle := n.circle(g.Group, g.Members); circle != errors.Is(err, access.ErrCircle) {
			t.Fatalf("%v: %v; a circle: %v", g, err, circle)
		}
		if err != nil {
			return p
		}
		n.groups[g.Group] = g.Members
		return next
	case "drop group":
		name := rapid.SampledFrom(groups).Draw(t, "group")
		delete(n.groups, name)
		return p.DropGroup(name)
	}
	n.observe, n.operate = drawList(t, entries), drawList(t, entries)
	return p.PutCell(access.CellRules{Observe: n.observe, Operate: n.operate})
}

func must(t rapid.TB) func(*access.Policy, error) *access.Policy {
	return func(p *access.Policy, err error) *access.Policy {
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

// compare asks both about everybody, everything and everywhere.
func compare(t rapid.TB, p *access.Policy, n *naive) {
	t.Helper()
	if got, want := p.NamesAnonymous(), n.open(); got != want {
		t.Fatalf("a list names anonymous: %v, want %v\n%s", got, want, everything(p))
	}
	for _, who := range users {
		for _, path := range asked {
			for _, perm := range access.Permissions {
				allowed, at := n.may(who, perm, path)
				d := p.May(who, perm, path)
				if got := ruleAt(d); d.Allowed != allowed || got != at {
					t.Fatalf("%s %s %s: %v by rule %q, want %v by %q\n%s", who, perm, path, d.Allowed, got, allowed, at, everything(p))
				}
				if got, want := p.MayBelow(who, perm, path), n.mayBelow(who, perm, path); got != want {
					t.Fatalf("%s %s below %s: %v, want %v\n%s", who, perm, path, got, want, everything(p))
				}
			}
		}
		if got, want := p.Operates(who), n.operates(who); got != want {
			t.Fatalf("%s operates: %v, want %v\n%s", who, got, want, everything(p))
		}
		if got, want := p.Observes(who), n.operates(who) || n.in(who, n.observe); got != want {
			t.Fatalf("%s observes: %v, want %v\n%s", who, got, want, everything(p))
		}
	}
}

// open reports whether any list of the naive policy has anonymous.
func (n *naive) open() bool {
	all := [][]string{n.observe, n.operate}
	for _, lists := range n.rules {
		all = slices.AppendSeq(all, maps.Values(lists))
	}
	return slices.Contains(slices.Concat(all...), access.Anonymous)
}

func ruleAt(d access.Decision) string {
	if d.Rule == nil {
		return ""
	}
	return d.Rule.Path
}

// checkRebuilt checks that a policy is the same however it came about: a
// restored state makes it from what there is.
func checkRebuilt(t rapid.TB, p *access.Policy) {
	t.Helper()
	again := must(t)(p.PutCell(p.Cell()), nil)
	fresh := access.New().PutCell(p.Cell())
	for _, g := range slices.Backward(slices.Collect(p.Groups(""))) {
		fresh = must(t)(fresh.PutGroup(g))
	}
	for r := range p.Rules("", "") {
		fresh = must(t)(fresh.PutRule(r))
	}
	if a, b := everything(again), everything(fresh); a != b {
		t.Fatalf("%s\nis made anew as\n%s", a, b)
	}
	if a, b := again.NamesAnonymous(), fresh.NamesAnonymous(); a != b {
		t.Fatalf("a policy that came about by changes names anonymous: %v, made anew: %v", a, b)
	}
	if a, b := again.Reach(), fresh.Reach(); a != b {
		t.Fatalf("a policy that came about by changes has reach %d, made anew %d", a, b)
	}
}

// everything is what a policy says, as text.
func everything(p *access.Policy) string {
	out := fmt.Sprintln("cell", p.Cell(), p.RuleCount(), p.GroupCount())
	for r := range p.Rules("", "") {
		out += fmt.Sprintln("rule", r.Path, r.Lists) // fmt sorts the keys
	}
	for g := range p.Groups("") {
		out += fmt.Sprintln("group", g.Group, g.Members)
	}
	for _, who := range users {
		for _, path := range asked {
			for _, perm := range access.Permissions {
				if d := p.May(who, perm, path); d.Allowed {
					out += fmt.Sprintln(who, perm, path, ruleAt(d))
				}
			}
		}
	}
	return out
}
