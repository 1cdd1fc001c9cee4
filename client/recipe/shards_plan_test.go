package recipe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/client"
)

// TestNextPlan: plans and owners are written as one letter per shard, "-" for
// no member.
func TestNextPlan(t *testing.T) {
	for _, c := range []struct{ why, members, plan, owners, want string }{
		{"the first plan", "a", "", "----", "aaaa"},
		{"the first plan of two", "ab", "", "----", "abab"},
		{"a lost plan follows the owners", "ab", "", "bbaa", "bbaa"},
		{"nothing to do", "ab", "aabb", "aabb", ""},
		{"odd numbers", "ab", "aaabb", "aaabb", ""},
		{"one served shard moves", "ab", "aaaa", "aaaa", "aaab"},
		{"the next waits until it is served", "ab", "aaab", "aaaa", ""},
		{"and while it is between two members", "ab", "aaab", "aaa-", ""},
		{"then it moves", "ab", "aaab", "aaab", "aabb"},
		{"shards that are not served yet move at once", "ab", "aaaa", "a---", "abba"},
		{"of the dead, to those with the fewest", "ab", "aabccc", "aabccc", "aabbab"},
		{"a return: the shard has not moved yet", "ab", "abcc", "abab", "abab"},
		{"a move waits for the shards of the dead", "ab", "aaac", "aaac", "aaab"},
		{"without a member the plan stays", "", "ab", "ab", ""},
		{"more members than shards", "abc", "ab", "ab", ""},
	} {
		got, changed := shardPlan(split(c.plan)).next(split(c.members), owners(c.owners))
		if want := c.want; changed != (want != "") || changed && strings.Join(got, "") != want {
			t.Errorf("%s: %v, %v; want %q", c.why, got, changed, want)
		}
	}
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "")
}

func owners(s string) []string {
	out := split(s)
	for k := range out {
		out[k] = strings.Trim(out[k], "-")
	}
	return out
}

// TestFewMoves: a member that joins m others causes at most n/(m+1) moves. When
// a member leaves, only its own shards move. The plan is balanced after each.
func TestFewMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "shards")
		members := []string{"m0"}
		serving := make([]string, n)
		plan := shardPlan(nil)
		settle := func() (moves int) {
			for {
				next, changed := plan.next(members, serving)
				if !changed {
					return moves
				}
				at := 0
				for k := range next {
					if serving[k] == next[k] {
						continue
					}
					if slices.Contains(members, serving[k]) {
						at++
					}
					moves++
				}
				if at > 1 {
					t.Fatalf("%d shards move at a time: from %v to %v", at, serving, next)
				}
				plan = next
				copy(serving, next)
			}
		}
		settle()
		for step := range rapid.IntRange(1, 20).Draw(t, "steps") {
			most := 0
			if len(members) < 2 || rapid.Bool().Draw(t, "joins") {
				most = n / (len(members) + 1)
				members = append(members, fmt.Sprintf("m%d", step+1))
				slices.Sort(members)
			} else {
				i := rapid.IntRange(0, len(members)-1).Draw(t, "leaves")
				gone := members[i]
				members = slices.Delete(members, i, i+1)
				for k := range serving {
					if serving[k] == gone {
						serving[k] = ""
						most++
					}
				}
			}
			if moves := settle(); moves > most {
				t.Fatalf("%d members, %d shards: %d moves, at most %d are needed", len(members), n, moves, most)
			}
			load := make(map[string]int)
			for _, name := range plan {
				load[name]++
			}
			for _, name := range members {
				if load[name] < n/len(members) || load[name] > (n+len(members)-1)/len(members) {
					t.Fatalf("not balanced: %v over %v", plan, members)
				}
			}
		}
	})
}

// TestPlanFile: a plan survives its file, and a file that is not the plan of
// these shards is refused.
func TestPlanFile(t *testing.T) {
	g := Shards{"/t/", 4}
	plan := shardPlan{"b", "a", "b", "c"}
	got, err := g.parse(&client.File{Content: g.format(plan)})
	if err != nil || !slices.Equal(got, plan) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := g.parse(nil); got != nil || err != nil {
		t.Errorf("without a file: %v, %v", got, err)
	}
	for _, bad := range []string{``, `x`, `{"members":["a"],"shards":[0,0,0]}`, `{"members":["a"],"shards":[0,0,0,1]}`, `{"members":["a"],"shards":[0,-1,0,0]}`} {
		if _, err := g.parse(&client.File{Content: []byte(bad)}); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}
