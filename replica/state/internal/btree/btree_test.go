package btree

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// entry is a value with its key.
type entry struct{ key, value int }

func newTree() Tree[int, entry] {
	return New(func(k int, e entry) int { return cmp.Compare(k, e.key) })
}

// sorted is a model's content in the order of its keys, from a key on.
func sorted(model map[int]int, from int) []entry {
	var out []entry
	for _, k := range slices.Sorted(maps.Keys(model)) {
		if k >= from {
			out = append(out, entry{k, model[k]})
		}
	}
	return out
}

// TestAsMap compares a tree, and copies made on the way, with maps.
func TestAsMap(t *testing.T) {
	type version struct {
		tree  Tree[int, entry]
		model map[int]int
	}
	rapid.Check(t, func(t *rapid.T) {
		now := version{newTree(), map[int]int{}}
		edit := now.tree.Edit()
		var earlier []version
		keys := rapid.IntRange(0, rapid.SampledFrom([]int{8, 500, 5000}).Draw(t, "keys"))
		check := func(v version) {
			if v.tree.Len() != len(v.model) {
				t.Fatalf("has %d values, want %d", v.tree.Len(), len(v.model))
			}
			if got := slices.Collect(v.tree.All()); !slices.Equal(got, sorted(v.model, math.MinInt)) {
				t.Fatalf("holds %v, want %v", got, sorted(v.model, math.MinInt))
			}
			from := keys.Draw(t, "from")
			if got := slices.Collect(v.tree.From(from)); !slices.Equal(got, sorted(v.model, from)) {
				t.Fatalf("holds %v from %d on, want %v", got, from, sorted(v.model, from))
			}
			checkShape(t, &v.tree)
		}
		run := func(change func(k int)) {
			k, n := keys.Draw(t, "key"), rapid.IntRange(1, 300).Draw(t, "n")
			step := rapid.SampledFrom([]int{-7, -1, 0, 1, 7}).Draw(t, "step")
			for range n {
				change(k)
				k += step
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { check(now) },
			"put": func(*rapid.T) {
				run(func(k int) {
					now.model[k]++
					edit.Put(k, entry{k, now.model[k]})
				})
			},
			"delete": func(*rapid.T) {
				run(func(k int) {
					delete(now.model, k)
					edit.Delete(k)
				})
			},
			"get": func(*rapid.T) {
				run(func(k int) {
					want, there := now.model[k]
					if got, ok := now.tree.Get(k); ok != there || got.value != want {
						t.Fatalf("has %v, %v under %d, want %d, %v", got, ok, k, want, there)
					}
				})
			},
			"edit": func(*rapid.T) {
				earlier = append(earlier, version{now.tree, maps.Clone(now.model)})
				edit = now.tree.Edit()
			},
		})
		for _, v := range earlier {
			check(v)
		}
	})
}

// checkShape checks that all leaves are on one level and that no node is too
// full or too empty, and that what a node has given away is not kept alive by
// it.
func checkShape(t rapid.TB, tree *Tree[int, entry]) {
	depth := -1
	var check func(n *node[entry], level int)
	check = func(n *node[entry], level int) {
		if n.count > most || n.count < least && n != tree.root || n.count == 0 {
			t.Fatalf("a node on level %d holds %d values", level, n.count)
		}
		for i, v := range n.values {
			if i >= n.count && v != (entry{}) {
				t.Fatalf("a node keeps %v", v)
			}
		}
		if n.children == nil {
			if depth >= 0 && depth != level {
				t.Fatalf("there are leaves on the levels %d and %d", depth, level)
			}
			depth = level
			return
		}
		for i, c := range n.children {
			if (i <= n.count) != (c != nil) {
				t.Fatalf("of %d children, the one at %d is %v", n.count+1, i, c)
			}
			if c != nil {
				check(c, level+1)
			}
		}
	}
	if tree.root != nil {
		check(tree.root, 0)
	}
}

// TestWalkEnds breaks walks off everywhere.
func TestWalkEnds(t *testing.T) {
	tree := newTree()
	edit := tree.Edit()
	for k := range 2000 {
		edit.Put(k, entry{k, k})
	}
	for n := range 2000 {
		for name, walk := range map[string]iter.Seq[entry]{"all": tree.All(), "from": tree.From(-1)} {
			seen := 0
			for v := range walk {
				if v.key != seen {
					t.Fatalf("%s: value %d stands at %d", name, v.key, seen)
				}
				if seen++; seen > n {
					break
				}
			}
		}
	}
}

// TestWalkAmidChanges changes a tree while it is walked.
func TestWalkAmidChanges(t *testing.T) {
	tree := newTree()
	edit := tree.Edit()
	for k := range 1000 {
		edit.Put(k, entry{k, k})
	}
	before := tree
	edit = tree.Edit()
	seen := 0
	for v := range before.All() {
		seen++
		edit.Delete(v.key)
		edit.Put(v.key+10_000, entry{v.key + 10_000, v.value})
	}
	if seen != 1000 || tree.Len() != 1000 {
		t.Fatalf("walked %d values and left %d, want 1000 each", seen, tree.Len())
	}
}
