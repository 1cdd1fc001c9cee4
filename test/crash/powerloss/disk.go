package powerloss

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Disk is a disk in use: what is on it for good, and what was done to it that
// is not synced.
type Disk struct {
	tree     *Tree
	pending  map[ID][]done // by what it was done to, in order
	n        int           // events
	last     ID            // the highest that was used
	remember bool
	events   []Event
}

// done is an event and its place.
type done struct {
	at int
	Event
}

// NewDisk is a disk on which t is for good, after some events.
func NewDisk(t *Tree, events ...Event) *Disk {
	d := &Disk{tree: t.clone(), pending: map[ID][]done{}, last: slices.Max(slices.Collect(maps.Keys(t.nodes)))}
	for _, e := range events {
		d.Do(e)
	}
	return d
}

// Remember has the disk keep the events from here on.
func (d *Disk) Remember() { d.remember = true }

// Events are those that it has kept.
func (d *Disk) Events() []Event { return d.events }

// Len is how many events there were.
func (d *Disk) Len() int { return d.n }

// NewID is one that was not used before.
func (d *Disk) NewID() ID {
	d.last++
	return d.last
}

// Do does something to the disk. Began of a Sync is the Len of when it began.
func (d *Disk) Do(e Event) {
	d.last = max(d.last, e.Node)
	switch e.Kind {
	case Write, Resize:
		d.pending[e.Node] = append(d.pending[e.Node], done{d.n, e})
	case Make:
		n := &node{}
		if e.IsDir {
			n.names = map[string]ID{}
		}
		d.tree.nodes[e.Node] = n
		d.pending[e.Dir] = append(d.pending[e.Dir], done{d.n, e})
	case Rename, Remove:
		d.pending[e.Dir] = append(d.pending[e.Dir], done{d.n, e})
	case Sync:
		d.settle(e)
	}
	d.n++
	if d.remember {
		d.events = append(d.events, e)
	}
}

// settle applies what came before a sync began.
func (d *Disk) settle(sync Event) {
	var rest []done
	for _, e := range d.pending[sync.Node] {
		if e.at < sync.Began {
			d.tree.apply(e.Event)
		} else {
			rest = append(rest, e)
		}
	}
	d.pending[sync.Node] = rest
	if rest == nil {
		delete(d.pending, sync.Node)
	}
}

// Seen is what a process sees: all that was done.
func (d *Disk) Seen() *Tree {
	return d.after(keepAll, nil)
}

// Lose is what may be left when the power is lost now. Which it is, of all that
// it may be, is drawn.
func (d *Disk) Lose(rng *rand.Rand) *Tree {
	return d.after(keeper(rng.IntN(int(keepers))), rng)
}

func (d *Disk) after(how keeper, rng *rand.Rand) *Tree {
	out := d.tree.clone()
	d.tree.owned = map[ID]bool{} // but shared from now on
	for _, id := range slices.Sorted(maps.Keys(d.pending)) {
		out.keep(d.pending[id], how, rng)
	}
	out.prune()
	return out
}
