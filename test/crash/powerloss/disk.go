package powerloss

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Disk is a disk in use: its durable content, and the changes that are not
// synced yet.
type Disk struct {
	tree     *Tree
	pending  map[ID][]done // by the node that changed, in order
	n        int           // number of events
	last     ID            // the highest ID used
	remember bool
	events   []Event
}

// done is an event and its position in the record.
type done struct {
	at int
	Event
}

// NewDisk returns a disk on which t is durable and events have happened since.
func NewDisk(t *Tree, events ...Event) *Disk {
	d := &Disk{tree: t.clone(), pending: map[ID][]done{}, last: slices.Max(slices.Collect(maps.Keys(t.nodes)))}
	for _, e := range events {
		d.Do(e)
	}
	return d
}

// Remember makes the disk keep all events from here on.
func (d *Disk) Remember() { d.remember = true }

// Events returns the events kept since Remember.
func (d *Disk) Events() []Event { return d.events }

// Len returns the number of events.
func (d *Disk) Len() int { return d.n }

// NewID returns an unused ID.
func (d *Disk) NewID() ID {
	d.last++
	return d.last
}

// Do applies an event to the disk. Began of a Sync is the Len at which the sync
// began.
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

// settle makes durable what came before a sync began.
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

// Seen returns what a process sees: the effect of all events.
func (d *Disk) Seen() *Tree {
	return d.after(keepAll, nil)
}

// Lose returns what may be left if the power is lost now. One of the possible
// outcomes is drawn.
func (d *Disk) Lose(rng *rand.Rand) *Tree {
	return d.after(keeper(rng.IntN(int(keepers))), rng)
}

func (d *Disk) after(how keeper, rng *rand.Rand) *Tree {
	out := d.tree.clone()
	d.tree.owned = map[ID]bool{} // shared with the copy from now on
	for _, id := range slices.Sorted(maps.Keys(d.pending)) {
		out.keep(d.pending[id], how, rng)
	}
	out.prune()
	return out
}
