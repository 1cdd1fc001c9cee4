package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestRoll: configurations come in any order. A removed server stays removed
// until a configuration lists it again.
func TestRoster(t *testing.T) {
	type note struct {
		index   uint64
		members string
		removed string
	}
	for name, test := range map[string]struct {
		notes         []note
		listed, gone  string
		neither       string
		index         uint64
		removedExpect string
	}{
		"nothing is known": {nil, "", "", "r1/a r4/d", 0, ""},
		"founded":          {[]note{{1, "r1/a r2/b r3/c", ""}}, "r1/a r2/b r3/c", "", "r4/d r1/z", 1, ""},
		"one is removed, with each directory of its name": {
			[]note{{1, "r1/a r4/d", ""}, {5, "r1/a", ""}}, "r1/a", "r4/d r4/e", "r5/f r1/z", 5, "r4/d r4"},
		"one is replaced: its name stays a member's": {
			[]note{{1, "r1/a r2/b", ""}, {5, "r1/a r2/b r2/n", ""}, {6, "r1/a r2/n", ""}}, "r1/a r2/n", "r2/b", "r2/z", 6, "r2/b"},
		"one is removed and added again, with another directory": {
			[]note{{1, "r1/a r4/d", ""}, {5, "r1/a", ""}, {9, "r1/a r4/e", ""}}, "r1/a r4/e", "r4/d", "r4/f", 9, "r4/d"},
		"one is removed and added again, with the same": {
			[]note{{1, "r1/a r4/d", ""}, {5, "r1/a", ""}, {9, "r1/a r4/d", ""}}, "r1/a r4/d", "", "r4/f", 9, ""},
		"an earlier one comes later": {
			[]note{{9, "r1/a r5/f", ""}, {5, "r1/a r4/d", ""}}, "r1/a r5/f", "r4/d r4/e", "r6/g", 9, "r4/d r4"},
		"the same comes again": {
			[]note{{1, "r1/a r4/d", ""}, {5, "r1/a", ""}, {1, "r1/a r4/d", ""}, {5, "r1/a", ""}}, "r1/a", "r4/d", "", 5, "r4/d r4"},
		"another tells of one that came and went": {
			[]note{{5, "r1/a", "r4/d r4 r1/z"}}, "r1/a", "r4/d r4/e r1/z", "r5/f", 5, "r4/d r4 r1/z"},
		"another tells of a member": {[]note{{5, "r1/a", "r1/a r1"}}, "r1/a", "", "r1/z", 5, ""},
		"no index":                  {[]note{{5, "r1/a", ""}, {0, "r9/z", ""}}, "r1/a", "", "r9/z", 5, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := new(Roster)
			for _, n := range test.notes {
				r = r.Note(n.index, strings.Fields(n.members), strings.Fields(n.removed))
			}
			for _, server := range strings.Fields(test.listed) {
				if !r.Lists(server) || r.Gone(server) {
					t.Errorf("%s: listed %v, gone %v", server, r.Lists(server), r.Gone(server))
				}
			}
			for _, server := range strings.Fields(test.gone) {
				if r.Lists(server) || !r.Gone(server) {
					t.Errorf("%s: listed %v, gone %v", server, r.Lists(server), r.Gone(server))
				}
			}
			for _, server := range strings.Fields(test.neither) {
				if r.Lists(server) || r.Gone(server) {
					t.Errorf("%s: listed %v, gone %v", server, r.Lists(server), r.Gone(server))
				}
			}
			if want := strings.Fields(test.removedExpect); r.Index != test.index || !slices.Equal(r.Removed, want) {
				t.Errorf("index %d, removed %q", r.Index, r.Removed)
			}
		})
	}
}

// TestRollIsBounded: the latest removals are kept.
func TestRosterIsBounded(t *testing.T) {
	r := new(Roster).Note(1, []string{"r1/a"}, nil)
	for i := range uint64(maxRemoved) {
		r = r.Note(2*i+2, []string{"r1/a", fmt.Sprintf("x%d/d", i)}, nil).Note(2*i+3, []string{"r1/a"}, nil)
	}
	last := fmt.Sprintf("x%d", maxRemoved-1)
	if len(r.Removed) != maxRemoved || !r.Gone(last+"/d") || r.Gone("x0/d") {
		t.Errorf("%d are kept; the last one is gone: %v", len(r.Removed), r.Gone(last+"/d"))
	}
}

// TestLearn: only the cards of members count.
func TestLearn(t *testing.T) {
	mine := new(Roster).Note(1, []string{"r1/a", "r2/b", "r4/d"}, nil).Note(5, []string{"r1/a", "r2/b"}, nil)
	card := func(server string, index uint64, members string) Answer {
		id, directory := Split(server)
		return Answer{Info: Info{ID: id, Directory: directory, CellID: "c", ConfigIndex: index, Members: strings.Fields(members), Removed: []string{"r6/f", "r6"}}}
	}
	other := card("r2/b", 9, "r1/a r2/b r4/e")
	other.Info.CellID = "another"
	for name, test := range map[string]struct {
		answers []Answer
		index   uint64
	}{
		"a member":                         {[]Answer{card("r2/b", 9, "r1/a r2/b r4/e")}, 9},
		"a member with a new directory":    {[]Answer{card("r2/n", 9, "r1/a r2/n r4/e")}, 9},
		"a member that knows as much":      {[]Answer{card("r2/b", 5, "r1/a r2/b")}, 5},
		"a member that knows less":         {[]Answer{card("r2/b", 1, "r1/a r2/b r4/d")}, 5},
		"a member before its first master": {[]Answer{card("r2/b", 0, "")}, 5},
		"a removed one":                    {[]Answer{card("r4/d", 99, "r4/d")}, 5},
		"one that is not known":            {[]Answer{card("r9/z", 99, "r9/z")}, 5},
		"a member of another cell":         {[]Answer{other}, 5},
		"none":                             {[]Answer{{Err: fmt.Errorf("no answer")}}, 5},
	} {
		answers := map[string]Answer{}
		for i, a := range test.answers {
			answers[fmt.Sprint(i)] = a
		}
		got := mine.Learn("c", answers)
		if got.Index != test.index || got.Gone("r4/e") != (test.index == 5) || got.Lists("r4/d") {
			t.Errorf("%s: %+v", name, got)
		}
		if kept := mine.Without(answers); len(kept) == 0 != (name == "a removed one") {
			t.Errorf("%s: %d answers are kept", name, len(kept))
		}
	}
	if got := mine.Learn("c", map[string]Answer{"r2": card("r2/b", 5, "r1/a r2/b")}); !got.Gone("r6/x") {
		t.Errorf("what a member knows as removed is not known: %+v", got)
	}
}

// A directory that was replaced believes no replica that the cell had removed.
func TestRemovedReplicaAdmitsNobody(t *testing.T) {
	self := Self{Identity: Identity{ID: "r1", Directory: "a", Cell: "c", CellID: "id", Replaced: 3, Known: *new(Roster).Note(2, []string{"r1/a", "r2/b", "r9/x"}, nil).Note(3, []string{"r2/b"}, nil)}}
	card := Info{ID: "r9", Directory: "x", CellID: "id", ConfigIndex: 1 << 40, Members: []string{"r1/a", "r9/x"}}
	if d := self.comeBack(map[string]Answer{"r9": {Info: card}}); d.Step == Go {
		t.Errorf("it comes back by the word of a removed replica: %+v", d)
	}
	card.ID, card.Directory, card.Members = "r2", "b", []string{"r1/a", "r2/b"}
	if d := self.comeBack(map[string]Answer{"r2": {Info: card}}); d.Step != Go {
		t.Errorf("it does not come back: %+v", d)
	}
}

// TestAdmittedWithTheRoster: an admitted directory knows the members and the
// removed replicas before it has any of the log.
func TestAdmittedWithTheRoster(t *testing.T) {
	told := Info{Cell: "c", ID: "r2", Directory: "b", CellID: "cell", ConfigIndex: 7, Members: []string{"r2/b", "r5/n"}, Removed: []string{"r4/d", "r4"},
		Founding: Founding{{ID: "r2", Directory: "b"}}}
	answers := map[string]Answer{"r2": {Info: told}}
	for name, self := range map[string]Self{
		"a new one":           {Identity: Identity{Cell: "c", ID: "r5", Directory: "n"}},
		"one that comes back": {Identity: Identity{Cell: "c", ID: "r5", Directory: "n", CellID: "cell", Replaced: 3, Known: Roster{Index: 3, Members: []string{"r2/b"}, Removed: []string{"r5/n", "r5", "r9/z", "r9"}}}},
	} {
		d := Decide(self, answers)
		known := d.Identity.Known
		if d.Step != Go || known.Index != 7 || !known.Lists("r5/n") || !known.Gone("r4/x") || known.Gone("r5/n") {
			t.Errorf("%s: %v %+v", name, d.Step, d.Identity)
		}
		if name == "one that comes back" && !known.Gone("r9/z") {
			t.Errorf("%s has forgotten what it knew", name)
		}
	}
}
