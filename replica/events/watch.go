package events

import (
	"cmp"
	"slices"

	"github.com/stoutlock/stout/replica/state"
)

// Watch is a reader of the ring that is woken only for events that pass its
// filter. So many watchers of one thing do not slow down the writers of
// another. Ring.Watch returns one. One goroutine uses it.
type Watch struct {
	ring   *Ring
	filter Filter
	reader string // the principal for which it reads; empty without one
	ready  chan struct{}
	number uint64 // unique in the ring

	// The ring's mu guards these. Between clear and first the ring has
	// published no event that passes. first is 0 if it has published none after
	// clear at all: the watch is then quiet, and the first event that passes
	// wakes it.
	clear, first uint64
}

// Watch returns a watch. Its user must read it before waiting for it, and must
// close it.
func (r *Ring) Watch(f Filter) *Watch { return r.WatchAs("", f) }

// WatchAs returns a watch for a principal. Events of a node do not wake it if
// the principal may not read the node, by the state of the event or a later
// one. The right is looked up once for all watches of a principal. Read does
// not check it.
func (r *Ring) WatchAs(reader string, f Filter) *Watch {
	w := &Watch{ring: r, filter: f, reader: reader, ready: make(chan struct{}, 1), first: 1}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watches.add(w)
	return w
}

// Watched reports whether the ring has watches.
func (r *Ring) Watched() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.watches.every) > 0
}

// Close removes the watch.
func (w *Watch) Close() {
	w.ring.mu.Lock()
	defer w.ring.mu.Unlock()
	w.ring.watches.remove(w)
}

// Ready returns a channel that has a value when there may be more than the last
// Read returned.
func (w *Watch) Ready() <-chan struct{} { return w.ready }

// Read is Ring.Read with the watch's filter. It does not examine again the
// events that the watch has skipped. As long as no matching event comes it
// returns at once, however many others have come.
func (w *Watch) Read(after uint64, limit int) (found []Event, upTo uint64, err error) {
	r := w.ring
	from := after
	r.mu.Lock()
	if after >= w.clear {
		if w.first == 0 {
			defer r.mu.Unlock()
			return nil, max(after, r.published), nil
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
	case r.floor > r.published: // the ring may have forgotten events and not published that; wakeAll will wake the watch
		w.first = upTo + 1 // as if a later event passed
	case r.published <= upTo:
		w.first = 0
	default: // the limit was reached, or more was published in the meantime
		w.first = upTo + 1
		w.wake()
	}
	return found, upTo, nil
}

// Bounds returns the bounds of the ring: the smallest revision after which Read
// answers, and the revision up to which events are published.
func (w *Watch) Bounds() (oldest, published uint64) {
	w.ring.mu.Lock()
	defer w.ring.mu.Unlock()
	return min(w.ring.floor, w.ring.published), w.ring.published
}

// Wake makes the reader read, even without a new event. Any goroutine may call
// it at any time.
func (w *Watch) Wake() { w.wake() }

func (w *Watch) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// notify processes a published event.
func (w *Watch) notify(e *Event) {
	if w.first == 0 && e.Revision > w.clear && w.filter.Passes(e) {
		w.first = e.Revision
		w.wake()
	}
}

// watchSet holds watches by their readers and their numbers.
type watchSet map[string]map[uint64]*Watch

// notify passes an event to the watches with a reader that may read it, by a
// state. It returns how many readers and watches it has visited.
func (s watchSet) notify(e *Event, by *state.State) (visited int) {
	visited = len(s)
	for reader, all := range s {
		if !mayRead(by, reader, e) {
			continue
		}
		visited += len(all)
		for _, w := range all {
			w.notify(e)
		}
	}
	return visited
}

// mayRead reports whether a reader may read an event by a state; s is nil if no
// state is known.
func mayRead(s *state.State, reader string, e *Event) bool {
	return reader == "" || e.Path == "" || s == nil || s.MayRead(reader, e.Path)
}

// watches finds the watches that may match an event by its path.
type watches struct {
	made     uint64 // number of watches added so far
	total    int    // number of watches
	every    watchSet
	unnamed  watchSet // watches without paths and prefixes
	paths    map[string]watchSet
	prefixes map[string]watchSet
	lengths  []length // of the prefixes, sorted
}

// length counts the prefixes of one length.
type length struct{ n, prefixes int }

func (a *watches) add(w *Watch) {
	a.made++
	a.total++
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
	a.total--
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

// count adds more prefixes of n bytes; more may be negative.
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

// notify passes an event to the watches that may match it and have a reader that
// may read it, by a state. It returns how many readers and watches it has visited.
func (a *watches) notify(e *Event, by *state.State) (visited int) {
	if e.Type == MasterChanged {
		return a.every.notify(e, by)
	}
	visited = a.paths[e.Path].notify(e, by)
	visited += a.unnamed.notify(e, by)
	for _, l := range a.lengths {
		if l.n > len(e.Path) {
			break
		}
		visited += a.prefixes[e.Path[:l.n]].notify(e, by)
	}
	return visited
}

// wakeFrom makes the quiet watches read the events after a revision, up to which
// they have read all.
func (a *watches) wakeFrom(revision uint64) {
	for _, all := range a.every {
		for _, w := range all {
			if w.first == 0 {
				w.first = revision + 1
				w.wake()
			}
		}
	}
}

// wakeAll makes all watches read again: events for which they wait may be gone.
func (a *watches) wakeAll() {
	for _, all := range a.every {
		for _, w := range all {
			if w.first == 0 {
				w.first = w.clear + 1
			}
			w.wake()
		}
	}
}
