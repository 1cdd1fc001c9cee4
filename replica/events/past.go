package events

// Past is what a ring remembers of one node.
type Past struct {
	// Events are those of the node, newest first, with the changes of master since
	// the last of them.
	Events []Event
	// Oldest is the revision after which all events are kept, Revision that up to
	// which they are told.
	Oldest, Revision uint64
	// Since is when the oldest event that is kept came about, Unix nanoseconds; 0
	// where none is.
	Since int64
	// More says that older events of the node are kept.
	More bool
}

// Past looks back at the node at path: at most limit of its events, and as many
// changes of master, both the newest. Nothing is told before Tell allows it.
func (r *Ring) Past(path string, limit int) Past {
	r.mu.Lock()
	all, floor, told := r.events, r.floor, r.told
	r.mu.Unlock()
	if floor > told { // what may be told is gone, and what is kept may not be told yet
		return Past{Oldest: told, Revision: told}
	}
	p := Past{Oldest: floor, Revision: told}
	all = all[:behind(all, told)]
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
