package events

// Past is the history of one node in a ring.
type Past struct {
	// Events are the events of the node, newest first, with the changes of
	// master since the oldest of them.
	Events []Event
	// Oldest is the revision after which all events are kept. Revision is the
	// revision up to which events are published.
	Oldest, Revision uint64
	// Since is the time of the oldest event in the ring, in Unix nanoseconds; 0
	// if it is empty.
	Since int64
	// More reports whether the ring has older events of the node.
	More bool
}

// Past returns the history of the node at path: at most limit of its events,
// and as many changes of master, both the newest. It includes no events that
// Publish has not released yet.
func (r *Ring) Past(path string, limit int) Past {
	r.mu.Lock()
	all, floor, published := r.events, r.floor, r.published
	r.mu.Unlock()
	if floor > published { // published events are gone, and the kept ones may be unpublished
		return Past{Oldest: published, Revision: published}
	}
	p := Past{Oldest: floor, Revision: published}
	all = all[:behind(all, published)]
	if len(all) > 0 {
		p.Since = all[0].At()
	}
	own, masters := 0, 0
	for i := len(all) - 1; i >= 0; i-- {
		switch e := &all[i]; {
		case e.Type == MasterChanged:
			if masters < limit && own < limit {
				p.Events = append(p.Events, *e)
				masters++
			}
		case e.Path == path && own == limit:
			p.More = true
			return p
		case e.Path == path:
			p.Events = append(p.Events, *e)
			own++
		}
	}
	return p
}
