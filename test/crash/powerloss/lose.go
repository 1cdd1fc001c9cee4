package powerloss

import "math/rand/v2"

// sector is the number of bytes that a disk writes whole or not at all.
const sector = 512

// apply applies the whole effect of an event.
func (t *Tree) apply(e Event) {
	switch e.Kind {
	case Write:
		n := t.file(e.Node)
		n.extend(e.Off + int64(len(e.Data)))
		copy(n.data[e.Off:], e.Data)
	case Resize:
		n := t.file(e.Node)
		n.extend(e.Off)
		n.data = n.data[:e.Off]
	case Make:
		t.nodes[e.Dir].names[e.Name] = e.Node
	case Rename:
		d := t.nodes[e.Dir]
		d.forget(e.Name, e.Node)
		d.names[e.To] = e.Node
	case Remove:
		t.nodes[e.Dir].forget(e.Name, e.Node)
	}
}

// forget removes a name unless it already belongs to another node.
func (n *node) forget(name string, id ID) {
	if n.names[name] == id {
		delete(n.names, name)
	}
}

func (n *node) extend(size int64) {
	if more := size - int64(len(n.data)); more > 0 {
		n.data = append(n.data, make([]byte, more)...)
	}
}

// keeper decides which of the unsynced changes survive.
type keeper int

const (
	keepNone keeper = iota
	keepAll
	keepSectors // any of the sectors and names
	keepTorn    // all writes except some sectors of the last, and names up to some change
	keepWrites  // any whole writes and names
	keepers
)

// keep applies some of the unsynced changes to one file or directory.
func (t *Tree) keep(all []done, how keeper, rng *rand.Rand) {
	if how == keepAll {
		for _, d := range all {
			t.apply(d.Event)
		}
		return
	}
	prefix := rng.IntN(len(all) + 1)
	for i, d := range all {
		last, named := i == len(all)-1, d.Kind != Write && d.Kind != Resize
		switch {
		case how == keepTorn && !named && !last, how == keepTorn && named && i < prefix:
			t.apply(d.Event)
		case how == keepNone, how == keepTorn && named:
		case how == keepWrites || d.Kind != Write:
			if rng.IntN(2) == 0 {
				t.apply(d.Event)
			}
		default:
			t.keepSome(d.Event, rng)
		}
	}
}

// keepSome applies some sectors of a write. The file may grow even if none is
// kept.
func (t *Tree) keepSome(e Event, rng *rand.Rand) {
	n := t.file(e.Node)
	if rng.IntN(2) == 0 {
		n.extend(e.Off + int64(len(e.Data)))
	}
	for at, data := e.Off, e.Data; len(data) > 0; {
		size := min(int64(len(data)), sector-at%sector)
		if rng.IntN(2) == 0 {
			n.extend(at + size)
			copy(n.data[at:], data[:size])
		}
		at, data = at+size, data[size:]
	}
}
