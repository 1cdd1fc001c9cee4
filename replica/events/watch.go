package events

import (
	"cmp"
	"slices"

	"github.com/stoutlock/stout/replica/state"
)

// Watch is a reader of the ring that is woken for what its filter passes, and for
// nothing else: many watchers of one thing cost those nothing who write another.
// Make it with Ring.Watch. One goroutine uses it.
type Watch struct {
	ring   *Ring
	filter Filter
	reader string // the principal that it reads for; empty for none
	ready  chan struct{}
	number uint64 // its own among those of the ring

	// The ring's mu guards what follows: between clear and first the ring has told
	// nothing that passes. first is 0 where it has told nothing after clear at all:
	// the watch is quiet then, and is woken by the first event that passes.
	clear, first uint64
}

// Watch makes a watch, which is to be read before it is waited for. Close it.
func (r *Ring) Watch(f Filter) *Watch { return r.WatchAs("", f) }

// WatchAs makes a watch for a principal. It is not woken for a node that the
// principal may not read, by the state as of the event or a later one. The right is
// looked up once for all watches of a principal. Read does not look at it.
func (r *Ring) WatchAs(reader string, f Filter) *Watch {
	w := &Watch{ring: r, filter: f, reader: reader, ready: make(chan struct{}, 1), first: 1}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watches.add(w)
	return w
}

// Close forgets the watch.
func (w *Watch) Close() {
	w.ring.mu.Lock()
	defer w.ring.mu.Unlock()
	w.ring.watches.remove(w)
}

// Ready has a value when there may be more to read. Wait for it after a Read that
// has found nothing.
func (w *Watch) Ready() <-chan struct{} { return w.ready }

// Read is Ring.Read with the watch's filter. What the watch knows it does not look
// through again: as long as nothing comes that passes it is done at once, however
// much else has come.
func (w *Watch) Read(after uint64, limit int) (found []Event, upTo uint64, err error) {
	r := w.ring
	from := after
	r.mu.Lock()
	if after >= w.clear {
		if w.first == 0 {
			defer r.mu.Unlock()
			return nil, max(after, r.told), nil
		}
		from = max(after, w.first-1)
	}
	r.mu.Unlock()
	found, upTo, err = r.Read(from, w.filter, limit)
	if err != nil {
		return nil, after, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch w.clear = upTo; {
	case len(found) > 0, r.floor > r.told: // of what the ring has forgotten and may not say so yet, begin tells
		w.first = upTo + 1 // perhaps
	case r.told <= upTo:
		w.first = 0
	default: // more was told meanwhile
		w.first = upTo + 1
		w.wake()
	}
	return found, upTo, nil
}

// Bounds returns those of the ring: the smallest revision after which Read answers, and the
// one up to which readers get events.
func (w *Watch) Bounds() (oldest, told uint64) {
	w.ring.mu.Lock()
	defer w.ring.mu.Unlock()
	return min(w.ring.floor, w.ring.told), w.ring.told
}

// Wake has the reader look, though nothing may have come. It may be called at any
// time, by any goroutine.
func (w *Watch) Wake() { w.wake() }

// wake has the reader look.
func (w *Watch) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// sees takes in that an event is told.
func (w *Watch) sees(e *Event) {
	if w.first == 0 && e.Revision > w.clear && w.filter.Passes(e) {
		w.first = e.Revision
		w.wake()
	}
}

// watchSet has watches by their readers, and by their numbers.
type watchSet map[string]map[uint64]*Watch

// see has those take in an event whose readers may read it by a state.
func (s watchSet) see(e *Event, by *state.State) {
	for reader, all := range s {
		if !mayRead(by, reader, e) {
			continue
		}
		for _, w := range all {
			w.sees(e)
		}
	}
}

// mayRead reports whether a reader may read an event by a state; nil for one that is
// not known.
func mayRead(s *state.State, reader string, e *Event) bool {
	return reader == "" || e.Path == "" || s == nil || s.MayRead(reader, e.Path)
}

// watches finds who may want an event by its path.
type watches struct {
	made     uint64 // so many were added so far
	every    watchSet
	unnamed  watchSet // of those that name no node
	paths    map[string]watchSet
	prefixes map[string]watchSet
	lengths  []length // of the prefixes, in order
}

// length is how long so many prefixes are.
type length struct{ n, prefixes int }

func (a *watches) add(w *Watch) {
	a.made++
	w.number = a.made
	put(&a.every, w)
	if len(w.filter.paths) == 0 && len(w.filter.prefixes) == 0 {
		put(&a.unnamed, w)
	}
	for path := range w.filter.paths {
		a.paths = putAt(a.paths, path, w)
	}
	for _, prefix := range w.filter.prefixes {
		if a.prefixes[prefix] == nil {
			a.count(len(prefix), 1)
		}
		a.prefixes = putAt(a.prefixes, prefix, w)
	}
}

func (a *watches) remove(w *Watch) {
	a.every.drop(w)
	a.unnamed.drop(w)
	for path := range w.filter.paths {
		removeAt(a.paths, path, w)
	}
	for _, prefix := range w.filter.prefixes {
		if a.prefixes[prefix] == nil {
			continue
		}
		if removeAt(a.prefixes, prefix, w); a.prefixes[prefix] == nil {
			a.count(len(prefix), -1)
		}
	}
}

// count notes that so many more prefixes are n bytes long.
func (a *watches) count(n, more int) {
	i, there := slices.BinarySearchFunc(a.lengths, n, func(l length, n int) int { return cmp.Compare(l.n, n) })
	if !there {
		a.lengths = slices.Insert(a.lengths, i, length{n: n})
	}
	if a.lengths[i].prefixes += more; a.lengths[i].prefixes == 0 {
		a.lengths = slices.Delete(a.lengths, i, i+1)
	}
}

func put(s *watchSet, w *Watch) {
	if *s == nil {
		*s = watchSet{}
	}
	if (*s)[w.reader] == nil {
		(*s)[w.reader] = map[uint64]*Watch{}
	}
	(*s)[w.reader][w.number] = w
}

func (s watchSet) drop(w *Watch) {
	if delete(s[w.reader], w.number); len(s[w.reader]) == 0 {
		delete(s, w.reader)
	}
}

func putAt(m map[string]watchSet, name string, w *Watch) map[string]watchSet {
	if m == nil {
		m = map[string]watchSet{}
	}
	set := m[name]
	put(&set, w)
	m[name] = set
	return m
}

func removeAt(m map[string]watchSet, name string, w *Watch) {
	if m[name].drop(w); len(m[name]) == 0 {
		delete(m, name)
	}
}

// see has those look who may want an event, and may read it by a state.
func (a *watches) see(e *Event, by *state.State) {
	if e.Type == MasterChanged {
		a.every.see(e, by)
		return
	}
	a.unnamed.see(e, by)
	a.paths[e.Path].see(e, by)
	for _, l := range a.lengths {
		if l.n > len(e.Path) {
			break
		}
		a.prefixes[e.Path[:l.n]].see(e, by)
	}
}

// begin has all look anew: what they wait for may be gone.
func (a *watches) begin() {
	for _, all := range a.every {
		for _, w := range all {
			if w.first == 0 {
				w.first = w.clear + 1
			}
			w.wake()
		}
	}
}
