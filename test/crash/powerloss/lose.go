package powerloss

import "math/rand/v2"

// sector is what a disk writes whole or not at all, in bytes.
const sector = 512

// apply does what an event does, whole.
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

// forget takes a name away, unless it has become another's.
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

// keeper is how it is drawn what of the unsynced is kept.
type keeper int

const (
	keepNone keeper = iota
	keepAll
	keepSectors // any of all sectors, any of the names
	keepTorn    // all writes but for some sectors of the last, names up to some change
	keepWrites  // any whole writes and names
	keepers
)

// keep applies some of what was done to one file or directory and not synced.
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

// keepSome applies some of the sectors of a write. The file may have become
// longer without any.
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
