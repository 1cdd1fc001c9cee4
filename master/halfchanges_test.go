package master

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// halfChange is a change of two entries. Only the first is made.
type halfChange struct {
	before    func(*testing.T, *fakeCell, *Master) // may be nil
	call      func(*testing.T, *Master) error
	made      int      // entries of the configuration until the master is lost; 0 for one
	want      []string // see wantMembers
	directory string   // the member's directory in the end; empty for no member
}

const earlier = "00000000000000bb"

// halfChanges has one change for each row of docs/design.md's table of changes.
func halfChanges() map[string]halfChange {
	replace := func(id, by string) func(*testing.T, *Master) error {
		return func(t *testing.T, m *Master) error {
			return replaceMember(t, m, id, by)
		}
	}
	set := func(id string, q lockapi.SetMemberRequest) func(*testing.T, *Master) error {
		return func(t *testing.T, m *Master) error {
			_, err := m.SetMember(t.Context(), &Caller{}, &lockapi.SetMember{ID: id, SetMemberRequest: q})
			return err
		}
	}
	remove := func(t *testing.T, m *Master) error {
		return second(m.RemoveMember(t.Context(), &Caller{}, &lockapi.RemoveMember{ID: "r3"}))
	}
	whole := func(call func(*testing.T, *Master) error) func(*testing.T, *fakeCell, *Master) {
		return func(t *testing.T, _ *fakeCell, m *Master) {
			if err := call(t, m); err != nil {
				t.Error(err)
			}
		}
	}
	add := func(suffrage string) func(*testing.T, *Master) error {
		return func(t *testing.T, m *Master) error {
			return second(m.AddMember(t.Context(), &Caller{}, addition(suffrage)))
		}
	}
	comes := func(c *fakeCell, id string) { c.set(func(f *fakeConf) { f.at[id] = newDirectory }) }
	three := []string{"r1+", "r2+", "r3+"}
	return map[string]halfChange{
		"add":                         {call: add(lockapi.SuffrageNonvoter), want: three},
		"remove":                      {call: remove, want: []string{"r1+", "r2+"}},
		"remove while being replaced": {before: whole(replace("r3", earlier)), call: remove, want: three, directory: founder("r3")},
		"move":                        {call: set("r3", lockapi.SetMemberRequest{RaftAddr: text("moved:1")}), want: three, directory: founder("r3")},
		"demote":                      {call: set("r3", lockapi.SetMemberRequest{Suffrage: text(lockapi.SuffrageNonvoter)}), want: three, directory: founder("r3")},
		"promote": {before: whole(add(lockapi.SuffrageNonvoter)), call: set("r4", lockapi.SetMemberRequest{Suffrage: text(lockapi.SuffrageVoter)}),
			want: []string{"r1+", "r2+", "r3+", "r4+"}, directory: fourth},
		"replace a voter": {before: func(_ *testing.T, c *fakeCell, _ *Master) { comes(c, "r3") },
			call: replace("r3", newDirectory), want: three, directory: newDirectory},
		"pass the vote on": {before: func(_ *testing.T, c *fakeCell, _ *Master) { comes(c, "r3") },
			call: replace("r3", newDirectory), made: 2, want: three, directory: newDirectory},
		"replace a nonvoter": {before: func(t *testing.T, c *fakeCell, m *Master) {
			whole(add(lockapi.SuffrageNonvoter))(t, c, m)
			comes(c, "r4")
		}, call: replace("r4", newDirectory), want: []string{"r1+", "r2+", "r3+", "r4"}, directory: newDirectory},
		"replace by another": {before: func(t *testing.T, c *fakeCell, m *Master) {
			whole(replace("r3", earlier))(t, c, m)
			comes(c, "r3")
		}, call: replace("r3", newDirectory), want: three, directory: newDirectory},
		"take back": {before: whole(replace("r3", earlier)), call: replace("r3", founder("r3")), want: three, directory: founder("r3")},
	}
}

// TestHalfChanges: each change is made by its call, and the master is lost
// between its two entries. The next master finishes or undoes it.
func TestHalfChanges(t *testing.T) {
	rows, all := changeRows(t), halfChanges()
	for name := range all {
		if rows[name] == "" {
			t.Errorf("docs/design.md has no row for %q", name)
		}
	}
	for _, name := range testrun.Rows(t, 3, slices.Sorted(maps.Keys(rows))) {
		first := rows[name]
		tc, ok := all[name]
		if !ok {
			t.Errorf("no half is made of the change %q of docs/design.md", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
				if tc.before != nil {
					tc.before(t, c, m)
					pass(time.Second)
				}
				tc.half(t, c, m, first)
				c.cutOff("r1", true)
				next := c.office("r2").master
				pass(time.Minute)
				c.wantMembers(t, "the next master", next, tc.want...)
				id := tc.want[len(tc.want)-1][:2]
				c.set(func(f *fakeConf) {
					for _, s := range f.members {
						if tc.directory != "" && s.ID == id && s.Directory != tc.directory {
							t.Errorf("%s has directory %s, want %s; after %q", id, s.Directory, tc.directory, f.changes)
						}
					}
				})
			})
		})
	}
}

// half makes the call so that only the first entry takes effect. After an entry
// of the table, the entry of the configuration fails; after an entry of the
// configuration, the master loses leadership.
func (tc halfChange) half(t *testing.T, c *fakeCell, m *Master, first string) {
	table, made := m.log.State().Members, max(1, tc.made)
	before := len(changes(c))
	c.set(func(f *fakeConf) {
		if f.busy = first == "table"; f.busy {
			return
		}
		left := made
		f.onChange = func(n *node) {
			if left--; left == 0 {
				f.onChange = nil
				n.c.depose(n.id)
			}
		}
	})
	err := tc.call(t, m)
	t.Logf("the caller gets: %v", err)
	if made > 1 {
		pass(time.Second) // keepMembers does the rest
	}
	c.set(func(f *fakeConf) {
		f.busy = false
		if n := len(f.changes) - before; first == "table" && n != 0 || first != "table" && n != made {
			t.Errorf("%d entries of the configuration: %q", n, f.changes)
		}
	})
	if changed := !slices.Equal(table, m.log.State().Members); made == 1 && changed != (first == "table") {
		t.Errorf("the table has changed: %v; the first entry is one of the %s", changed, first)
	}
}

// changeRows are the rows of docs/design.md's table of changes, with the place
// of the first entry of each.
func changeRows(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../docs/design.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "| change | first | second |")
	table, _, _ := strings.Cut(rest, "\n\n")
	rows := map[string]string{}
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(line, "|")
		first, _, _ := strings.Cut(strings.TrimSpace(cells[2]), ":")
		rows[strings.TrimSpace(cells[1])] = first
	}
	if len(rows) == 0 {
		t.Fatal("docs/design.md has no table of changes")
	}
	return rows
}
