package powerloss

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

var long = bytes.Repeat([]byte("x"), sector)

// outcomes returns, as text, everything that is left of a disk in many losses.
func outcomes(t *testing.T, disk *Tree, events []Event) []string {
	t.Helper()
	seen := map[string]bool{}
	for seed := range uint64(400) {
		left := NewDisk(disk, events...).Lose(rand.New(rand.NewPCG(seed, 1)))
		var out bytes.Buffer
		left.Walk(func(path string, id ID, dir bool) {
			data := bytes.ReplaceAll(left.nodes[id].data, make([]byte, sector), []byte("<none>"))
			data = bytes.ReplaceAll(data, long, []byte("<long>"))
			fmt.Fprintf(&out, "%s:%s ", path, bytes.ReplaceAll(data, []byte{0}, []byte("0")))
		})
		seen[out.String()] = true
	}
	var all []string
	for s := range seen {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

func file(text string) *Tree {
	d := NewTree()
	d.nodes[2] = &node{data: []byte(text)}
	d.nodes[Top].names["a"] = 2
	return d
}

func TestLose(t *testing.T) {
	made := Event{Kind: Make, Node: 2, Dir: Top, Name: "a"}
	for _, c := range []struct {
		name   string
		disk   *Tree
		events []Event
		want   []string
	}{
		{"nothing was done", file("old"), nil, []string{"a:old "}},
		{"a write", file("old"), []Event{{Kind: Write, Node: 2, Data: []byte("new")}}, []string{"a:new ", "a:old "}},
		{"a write and a sync", file("old"), []Event{{Kind: Write, Node: 2, Data: []byte("new")}, {Kind: Sync, Node: 2, Began: 1}}, []string{"a:new "}},
		{"a write within a sync", file("old"), []Event{{Kind: Write, Node: 2, Data: []byte("new")}, {Kind: Sync, Node: 2, Began: 0}}, []string{"a:new ", "a:old "}},
		{"a write of two sectors behind the end", file(""), []Event{{Kind: Write, Node: 2, Data: slices.Concat(long, []byte("y"))}},
			[]string{"a: ", "a:<long> ", "a:<long>0 ", "a:<long>y ", "a:<none>0 ", "a:<none>y "}},
		{"a cut", file("old"), []Event{{Kind: Resize, Node: 2, Off: 1}}, []string{"a:o ", "a:old "}},
		{"a new file with its data synced", NewTree(), []Event{made, {Kind: Write, Node: 2, Data: []byte("new")}, {Kind: Sync, Node: 2, Began: 2}}, []string{"", "a:new "}},
		{"a new file with its name synced", NewTree(), []Event{made, {Kind: Write, Node: 2, Data: []byte("new")}, {Kind: Sync, Node: Top, Began: 2}},
			[]string{"a: ", "a:000 ", "a:new "}},
		{"another in its place", file("old"), []Event{{Kind: Make, Node: 3, Dir: Top, Name: "b"}, {Kind: Write, Node: 3, Data: []byte("new")}, {Kind: Sync, Node: 3, Began: 2},
			{Kind: Rename, Node: 3, Dir: Top, Name: "b", To: "a"}}, []string{"a:new ", "a:old ", "a:old b:new "}},
		{"a directory", NewTree(), []Event{{Kind: Make, Node: 5, Dir: Top, Name: "d", IsDir: true}, {Kind: Make, Node: 6, Dir: 5, Name: "f"},
			{Kind: Sync, Node: Top, Began: 2}, {Kind: Rename, Node: 5, Dir: Top, Name: "d", To: "e"}, {Kind: Sync, Node: Top, Began: 4}}, []string{"e: ", "e: e/f: "}},
		{"a name taken away", file("old"), []Event{{Kind: Remove, Node: 2, Dir: Top, Name: "a"}}, []string{"", "a:old "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.disk.clone()
			slices.Sort(c.want)
			if got := outcomes(t, c.disk, c.events); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if !reflect.DeepEqual(c.disk.nodes, before.nodes) {
				t.Error("the disk itself has changed")
			}
		})
	}
}
