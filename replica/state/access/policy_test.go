package access_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stoutlock/stout/replica/state/access"
)

// large returns a policy with the given numbers of rules and groups. Each rule names
// groups, which are nested ten deep. user:u0 is a member of every tenth group, and so
// an indirect member of the others.
func large(tb testing.TB, rules, groups int) *access.Policy {
	p := access.New().PutCell(access.CellRules{Observe: []string{"group:watchers"}, Operate: []string{"group:ops", "user:chief"}})
	for i := range groups {
		members := []string{fmt.Sprintf("user:u%d", i), fmt.Sprintf("user:v%d", i)}
		if i%10 == 9 {
			members = append(members, "user:u0")
		} else if i+1 < groups {
			members = append(members, fmt.Sprintf("group:g%d", i+1))
		}
		p = must(tb)(p.PutGroup(&access.Members{Group: fmt.Sprintf("g%d", i), Members: members}))
	}
	for i := range rules {
		r := &access.Rule{Path: fmt.Sprintf("/team%d/service%d/conf%d", i%100, i/100%10, i), Lists: map[access.Permission][]string{}}
		for _, perm := range access.Permissions {
			r.Lists[perm] = []string{"user:owner", fmt.Sprintf("group:g%d", i%max(groups, 1)), fmt.Sprintf("group:g%d", (i+7)%max(groups, 1)), "group:x"}
		}
		p = must(tb)(p.PutRule(r))
	}
	return p
}

// BenchmarkMay: the time does not grow with the numbers of rules and groups.
func BenchmarkMay(b *testing.B) {
	deep := strings.Repeat("/x", 28)
	for _, size := range []struct{ rules, groups int }{{1, 1}, {100, 10}, {10_000, 1000}} {
		p := large(b, size.rules, size.groups)
		for name, who := range map[string]string{"stranger": "user:nobody", "in-many-groups": "user:u0", "in-one": "user:v0"} {
			b.Run(fmt.Sprintf("rules=%d/groups=%d/%s", size.rules, size.groups, name), func(b *testing.B) {
				path := fmt.Sprintf("/team%d/service%d/conf%d/now", (size.rules-1)%100, (size.rules-1)/100%10, size.rules-1)
				for b.Loop() {
					p.May(who, access.Write, path)
				}
			})
		}
		b.Run(fmt.Sprintf("rules=%d/groups=%d/deep", size.rules, size.groups), func(b *testing.B) {
			for b.Loop() {
				p.May("user:u0", access.Write, "/team0/service0/conf0"+deep)
			}
		})
	}
}

// BenchmarkChange changes a large policy.
func BenchmarkChange(b *testing.B) {
	p := large(b, 10_000, 1000)
	b.Run("rule", func(b *testing.B) {
		for b.Loop() {
			must(b)(p.PutRule(&access.Rule{Path: "/team5/new", Lists: map[access.Permission][]string{access.Read: {"*"}}}))
		}
	})
	b.Run("group", func(b *testing.B) {
		for b.Loop() {
			must(b)(p.PutGroup(&access.Members{Group: "g500", Members: []string{"user:new", "group:g501"}}))
		}
	})
	b.Run("top group", func(b *testing.B) { // with all nested members
		for b.Loop() {
			must(b)(p.PutGroup(&access.Members{Group: "top", Members: []string{"group:g0", "group:g10", "group:g20"}}))
		}
	})
}

// TestMayAllocatesNothing: every call needs a decision.
func TestMayAllocatesNothing(t *testing.T) {
	p := large(t, 1000, 100)
	if n := testing.AllocsPerRun(100, func() { p.May("user:u0", access.Write, "/team1/service1/conf101/x") }); n != 0 {
		t.Errorf("a decision allocates %v times", n)
	}
}

// TestBounds: the numbers of rules and groups are bounded.
func TestBounds(t *testing.T) {
	p := access.New()
	for i := range access.MaxGroups {
		p = must(t)(p.PutGroup(&access.Members{Group: fmt.Sprint(i)}))
	}
	if _, err := p.PutGroup(&access.Members{Group: "one more"}); !errors.Is(err, access.ErrFull) {
		t.Errorf("group %d: %v", access.MaxGroups+1, err)
	}
	must(t)(p.PutGroup(&access.Members{Group: "0", Members: []string{"user:a"}}))
	for i := range access.MaxRules {
		p = must(t)(p.PutRule(&access.Rule{Path: fmt.Sprintf("/%d/%d", i%300, i)}))
	}
	if _, err := p.PutRule(&access.Rule{Path: "/one more"}); !errors.Is(err, access.ErrFull) {
		t.Errorf("rule %d: %v", access.MaxRules+1, err)
	}
	must(t)(p.PutRule(&access.Rule{Path: "/0/0", Lists: map[access.Permission][]string{access.Read: {}}}))
}

// TestReachIsBounded: nested groups use bounded memory and time, although each group has
// few members.
func TestReachIsBounded(t *testing.T) {
	p := access.New()
	group := func(name string, members ...string) error {
		next, err := p.PutGroup(&access.Members{Group: name, Members: members})
		if err == nil {
			p = next
		}
		return err
	}
	const depth = 300
	for i := range depth { // each a member of the next
		if err := group(fmt.Sprint(i), fmt.Sprintf("group:%d", i-1)); err != nil {
			t.Fatal(err)
		}
	}
	var all []string
	for i := range 10 { // a thousand users each, in two groups
		var users []string
		for n := range access.MaxEntries {
			users = append(users, fmt.Sprintf("user:%d-%d", i, n))
		}
		all = append(all, fmt.Sprintf("group:x%d", i))
		err := errors.Join(group(fmt.Sprintf("y%d", i), users...), group(fmt.Sprintf("x%d", i), users...), group("0", all...))
		if errors.Is(err, access.ErrFull) && p.Reach() <= access.MaxReach && p.Reach() > access.MaxReach/2 {
			return
		}
		if err != nil {
			t.Fatalf("at reach %d: %v", p.Reach(), err)
		}
	}
	t.Errorf("reach is %d, but no change was refused", p.Reach())
}

// TestSound: Sound refuses malformed entries, rules and groups.
func TestSound(t *testing.T) {
	long := "user:" + strings.Repeat("x", access.MaxName)
	for _, entry := range []string{"user:a", "user:spiffe://cell/billing", "user:Alice Smith", long, "group:g", "*", "anonymous"} {
		if !access.IsEntry(entry) {
			t.Errorf("%q is refused", entry)
		}
	}
	for _, entry := range []string{"", "a", "user:", "group:", "User:a", "user:a\x00", "user:a\nb", "user:\x1b[2J", "user:\u0085", "user:\xff", long + "x", "everybody", "**"} {
		if access.IsEntry(entry) {
			t.Errorf("%q is accepted", entry)
		}
	}
	read := map[access.Permission][]string{access.Read: {}}
	many := make([]string, access.MaxEntries+1)
	for i := range many {
		many[i] = "*"
	}
	for _, tt := range []struct {
		rule  access.Rule
		sound bool
	}{
		{access.Rule{Path: "/", Lists: read}, true},
		{access.Rule{Path: "/a"}, true},
		{access.Rule{Path: "", Lists: read}, false},
		{access.Rule{Path: "/a\x00", Lists: read}, false},
		{access.Rule{Path: "/a", Lists: map[access.Permission][]string{0: {}}}, false},
		{access.Rule{Path: "/a", Lists: map[access.Permission][]string{5: {}}}, false},
		{access.Rule{Path: "/a", Lists: map[access.Permission][]string{access.Read: nil}}, false},
		{access.Rule{Path: "/a", Lists: map[access.Permission][]string{access.Read: {"x"}}}, false},
		{access.Rule{Path: "/a", Lists: map[access.Permission][]string{access.Read: many}}, false},
		{access.Rule{Path: "/a", Lists: map[access.Permission][]string{access.Read: many[1:]}}, true},
	} {
		if got := tt.rule.Sound(); got != tt.sound {
			t.Errorf("rule at %q is sound: %v", tt.rule.Path, got)
		}
	}
	for text, p := range map[string]access.Permission{"read": access.Read, "lock": access.Lock, "write": access.Write, "admin": access.Admin, "none": 0} {
		if p.String() != text {
			t.Errorf("%d is called %q", p, p)
		}
	}
	if d := access.New().May("user:a", 0, "/"); d.Allowed {
		t.Error("an unknown permission is granted")
	}
}

func TestSame(t *testing.T) {
	a := access.Rule{Path: "/a", Lists: map[access.Permission][]string{access.Read: {"*"}}}
	for _, b := range []access.Rule{
		{Path: "/b", Lists: a.Lists}, {Path: "/a"},
		{Path: "/a", Lists: map[access.Permission][]string{access.Lock: {"*"}}},
		{Path: "/a", Lists: map[access.Permission][]string{access.Read: {}}},
	} {
		if a.Same(&b) || b.Same(&a) {
			t.Errorf("%v is the same as %v", a, b)
		}
	}
	if b := a; !a.Same(&b) {
		t.Error("a rule is not the same as itself")
	}
}
