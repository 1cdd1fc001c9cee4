package admission

import (
	"errors"
	"strings"
	"testing"
)

// TestJoinerFoundsNothing: a joining replica founds no cell, whichever replicas
// answer. It joins a cell only when the cell lists it.
func TestJoinerFoundsNothing(t *testing.T) {
	founding := Founding{{"r1", "a", ""}, {"r2", "b", ""}}
	id := founding.CellID("c")
	member := func(of ...string) Info {
		return Info{Cell: "c", ID: "r1", Directory: "a", Founding: founding, CellID: id, Members: of, ConfigIndex: 7}
	}
	for name, tc := range map[string]struct {
		answers map[string]Answer
		step    Step
		why     string
		known   bool
	}{
		"nobody":                       {nil, Wait, "no route", false},
		"one that founds":              {map[string]Answer{"r1": {Info: Info{Cell: "c", ID: "r1", Directory: "a", Names: []string{"r4"}}}}, Wait, "no cell yet", false},
		"one is away":                  {map[string]Answer{"r1": {Err: errors.New("away")}}, Wait, "r1 (away)", false},
		"a cell that does not know it": {map[string]Answer{"r1": {Info: member("r1/a", "r2/b")}}, Outsider, "no member of that name", false},
		"a cell that has its name":     {map[string]Answer{"r1": {Info: member("r1/a", "r4/x")}}, Outsider, "knows r4 by directory x", true},
		"a cell that just starts":      {map[string]Answer{"r1": {Info: Info{Cell: "c", ID: "r1", Founding: founding, CellID: id}}}, Outsider, "gives its members only after it has a master", false},
		"a cell that lists it":         {map[string]Answer{"r1": {Info: member("r1/a", "r4/n")}}, Go, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(Self{Identity: Identity{Cell: "c", ID: "r4", Directory: "n"}, Names: []string{"r4"}, Joins: true, Unanswered: errors.New("no route")}, tc.answers)
			if d.Step != tc.step || !strings.Contains(d.Why, tc.why) || d.Member != tc.known {
				t.Errorf("%v %v: %s", d.Step, d.Member, d.Why)
			}
			if d.Step == Go && (d.Identity.CellID != id || d.Identity.Admitted != 7) {
				t.Errorf("%+v", d.Identity)
			}
		})
	}
}

// TestFindRemoved: a directory that is not listed learns whether another has
// taken its place.
func TestFindRemoved(t *testing.T) {
	self := Self{Identity: Identity{Cell: "c", ID: "r4", Directory: "n", CellID: "id"}, ConfigIndex: 5}
	for members, want := range map[string]bool{"r1/a": false, "r1/a r4/x": true} {
		d, ok := FindReplaced(self, map[string]Answer{"r1": {Info: Info{CellID: "id", ConfigIndex: 9, Members: strings.Fields(members)}}})
		if !ok || d.Member != want || d.Identity.Replaced != 9 {
			t.Errorf("%s: %v %+v", members, ok, d)
		}
	}
}
