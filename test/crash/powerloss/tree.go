package powerloss

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// ID identifies a file or directory for its whole life, also after a rename.
type ID int

// Top is the root directory of a Tree.
const Top ID = 1

// Tree is the content of a disk: directories and files by ID. A node without a
// name in a directory is lost.
type Tree struct {
	nodes map[ID]*node
	owned map[ID]bool // files that no other tree shares
}

// node is a directory (names is not nil) or a file.
type node struct {
	names map[string]ID
	data  []byte
}

// NewTree returns an empty directory.
func NewTree() *Tree { return &Tree{nodes: map[ID]*node{Top: {names: map[string]ID{}}}} }

// clone returns a copy with its own directories. The copy shares files until
// they are written to.
func (t *Tree) clone() *Tree {
	out := &Tree{maps.Clone(t.nodes), map[ID]bool{}}
	for id, n := range t.nodes {
		if n.names != nil {
			out.nodes[id] = &node{names: maps.Clone(n.names)}
		}
	}
	return out
}

// Walk visits everything below the top, each directory before what is in it.
// Paths are relative to the top.
func (t *Tree) Walk(visit func(path string, id ID, dir bool)) { t.walk("", Top, visit) }

func (t *Tree) walk(path string, dir ID, visit func(string, ID, bool)) {
	names := t.nodes[dir].names
	for _, name := range slices.Sorted(maps.Keys(names)) {
		id, below := names[name], filepath.Join(path, name)
		inner := t.nodes[id].names != nil
		visit(below, id, inner)
		if inner {
			t.walk(below, id, visit)
		}
	}
}

// Read returns the content of a file, and whether it exists.
func (t *Tree) Read(path string) (data []byte, ok bool) {
	t.Walk(func(have string, id ID, dir bool) {
		if have == path && !dir {
			data, ok = t.nodes[id].data, true
		}
	})
	return data, ok
}

// Store writes the tree into an empty directory.
func (t *Tree) Store(dir string) (err error) {
	t.Walk(func(path string, id ID, inner bool) {
		name := filepath.Join(dir, path)
		switch {
		case err != nil:
		case inner:
			err = os.Mkdir(name, 0o700)
		default:
			err = storeSparse(name, t.nodes[id].data)
		}
	})
	return err
}

// storeSparse writes a file, leaving holes for the parts that are zero.
func storeSparse(name string, data []byte) error {
	const part = len(zeros)
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	err = f.Truncate(int64(len(data)))
	for at := 0; at < len(data) && err == nil; at += part {
		if piece := data[at:min(at+part, len(data))]; !bytes.Equal(piece, zeros[:len(piece)]) {
			_, err = f.WriteAt(piece, int64(at))
		}
	}
	return errors.Join(err, f.Close())
}

var zeros [16 << 10]byte

// prune drops the nodes that no directory names.
func (t *Tree) prune() {
	found := map[ID]*node{Top: t.nodes[Top]}
	t.Walk(func(_ string, id ID, _ bool) { found[id] = t.nodes[id] })
	t.nodes = found
}

// file returns a file that may be written to.
func (t *Tree) file(id ID) *node {
	if !t.owned[id] {
		t.owned[id] = true
		t.nodes[id] = &node{data: bytes.Clone(t.nodes[id].data)}
	}
	return t.nodes[id]
}
