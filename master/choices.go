package master

import (
	"iter"
	"slices"
)

// Of a transaction that may write in either branch the larger one counts. It takes
// no rooms of paths, which others could share: what they write may come to be
// beside its other branch.

// choice is what a transaction may write in its branches, of which one is taken.
type choice struct {
	branches [2]map[string]int64 // bytes of content by path
	more     [2]usage            // what each would add to what there is otherwise
}

// newChoice is one that is not entered yet.
func newChoice(f *fileRooms, then, other map[string]int64) *choice {
	c := &choice{branches: [2]map[string]int64{then, other}}
	for path := range c.paths() {
		c.count(path, f.usage(path), 1)
	}
	return c
}

func (c *choice) usage() usage { return c.more[0].most(c.more[1]) }

// paths walks what it may write.
func (c *choice) paths() iter.Seq[string] {
	return func(yield func(string) bool) {
		for path := range c.branches[0] {
			if !yield(path) {
				return
			}
		}
		for path := range c.branches[1] {
			if _, both := c.branches[0][path]; !both && !yield(path) {
				return
			}
		}
	}
}

// count counts what the choice adds at a path that otherwise takes now, or ceases
// to.
func (c *choice) count(path string, now usage, times int64) {
	for i, writes := range c.branches {
		if content, ok := writes[path]; ok {
			c.more[i].add(moreThan(now, path, content), times)
		}
	}
}

// choose enters a choice, and chosen ends it. a.mu is held.
func (a *accounting) choose(c *choice) {
	for path := range c.paths() {
		a.files.choices[path] = append(a.files.choices[path], c)
	}
	a.cell.add(c.usage(), 1)
}

func (a *accounting) chosen(c *choice) {
	for path := range c.paths() {
		left := slices.DeleteFunc(a.files.choices[path], func(other *choice) bool { return other == c })
		if a.files.choices[path] = left; len(left) == 0 {
			delete(a.files.choices, path)
		}
	}
	a.cell.add(c.usage(), -1)
}
