package access_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/replica/state/access"
	"github.com/stoutlock/stout/test/model"
)

// The fuzz test draws from few names, so that they coincide.
var (
	users   = []string{"user:a", "user:b", "user:c", "user:root", "anonymous"}
	groups  = []string{"g", "h", "i", "j", "k"}
	entries = []string{"user:a", "user:b", "user:c", "group:g", "group:h", "group:i", "group:j", "group:k", "*", "anonymous"}
	places  = []string{"/", "/a", "/a/b", "/a/b/c", "/a/bb", "/ab", "/b", "/b/a", "/a-b"}
	asked   = append([]string{"/a/b/c/d", "/a/bc", "/abc", "/z", "/b/a/b"}, places...)
)

// TestAsNaive compares the policy with the naive one after every change. It
// also compares each policy with its earlier self, which no change may affect.
func TestAsNaive(t *testing.T) {
	rapid.Check(t, asNaive)
}

func FuzzAsNaive(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(asNaive))
}

func asNaive(t *rapid.T) {
	p, n := access.New(), &model.Access{On: true, Rules: map[string]*access.Rule{}, Groups: map[string][]string{}}
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

// change makes one change to both policies.
func change(t *rapid.T, p *access.Policy, n *model.Access) *access.Policy {
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
		n.Rules[r.Path] = r
		return must(t)(p.PutRule(r))
	case "drop rule":
		path := rapid.SampledFrom(places).Draw(t, "path")
		delete(n.Rules, path)
		return p.DropRule(path)
	case "group":
		g := &access.Members{Group: rapid.SampledFrom(groups).Draw(t, "group"), Members: drawList(t, entries[:8])}
		next, err := p.PutGroup(g)
		if cycle := n.Cycle(g.Group, g.Members); cycle != errors.Is(err, access.ErrCycle) {
			t.Fatalf("%v: %v; a circle: %v", g, err, cycle)
		}
		if err != nil {
			return p
		}
		n.Groups[g.Group] = g.Members
		return next
	case "drop group":
		name := rapid.SampledFrom(groups).Draw(t, "group")
		delete(n.Groups, name)
		return p.DropGroup(name)
	}
	n.Cell = access.CellRules{Observe: drawList(t, entries), Operate: drawList(t, entries)}
	return p.PutCell(n.Cell)
}

func must(t rapid.TB) func(*access.Policy, error) *access.Policy {
	return func(p *access.Policy, err error) *access.Policy {
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

// compare compares both policies for every principal, permission and path.
func compare(t rapid.TB, p *access.Policy, n *model.Access) {
	t.Helper()
	if got, want := p.NamesAnonymous(), open(n); got != want {
		t.Fatalf("a list names anonymous: %v, want %v\n%s", got, want, everything(p))
	}
	for _, who := range users {
		for _, path := range asked {
			for _, perm := range access.Permissions {
				allowed, at := n.Decide(who, perm, path)
				d := p.May(who, perm, path)
				if got := ruleAt(d); d.Allowed != allowed || got != at {
					t.Fatalf("%s %s %s: %v by rule %q, want %v by %q\n%s", who, perm, path, d.Allowed, got, allowed, at, everything(p))
				}
				if got, want := p.MayBelow(who, perm, path), mayBelow(n, who, perm, path); got != want {
					t.Fatalf("%s %s below %s: %v, want %v\n%s", who, perm, path, got, want, everything(p))
				}
			}
		}
		if got, want := p.Operates(who), n.Operates(who); got != want {
			t.Fatalf("%s operates: %v, want %v\n%s", who, got, want, everything(p))
		}
		if got, want := p.Observes(who), n.Operates(who) || n.Lists(n.Cell.Observe, who); got != want {
			t.Fatalf("%s observes: %v, want %v\n%s", who, got, want, everything(p))
		}
	}
}

// mayBelow checks every path that has a rule.
func mayBelow(n *model.Access, who string, p access.Permission, dir string) bool {
	return !slices.ContainsFunc(append(n.Below(dir), dir), func(at string) bool { return !n.May(who, p, at) })
}

// open reports whether any list of the naive policy has anonymous.
func open(n *model.Access) bool {
	all := [][]string{n.Cell.Observe, n.Cell.Operate}
	for _, rule := range n.Rules {
		all = slices.AppendSeq(all, maps.Values(rule.Lists))
	}
	return slices.Contains(slices.Concat(all...), access.Anonymous)
}

func ruleAt(d access.Decision) string {
	if d.Rule == nil {
		return ""
	}
	return d.Rule.Path
}

// checkRebuilt checks that a policy does not depend on its history: a restored
// state rebuilds it from its content.
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
		t.Fatalf("%s\nis rebuilt as\n%s", a, b)
	}
	if a, b := again.NamesAnonymous(), fresh.NamesAnonymous(); a != b {
		t.Fatalf("a policy made by changes names anonymous: %v, rebuilt: %v", a, b)
	}
	if a, b := again.Reach(), fresh.Reach(); a != b {
		t.Fatalf("a policy made by changes has reach %d, rebuilt %d", a, b)
	}
}

// everything returns a policy as text.
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
