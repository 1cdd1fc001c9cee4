package events

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/replica/state"
)

// Ring holds the last events of one replica. Make it with New.
type Ring struct {
	maxEvents int
	maxBytes  int64

	// mu guards what follows. It is held to exchange or copy the slice, never
	// to search it: the elements of events are written once, behind the end
	// that every earlier reader knows, and those in front are never cleared, so
	// a reader needs no lock for a slice that it has taken.
	mu      sync.Mutex
	events  []Event // in the order of revisions, without a gap but for the front
	bytes   int64   // of events
	dead    int64   // bytes of those in front that the array still keeps alive
	floor   uint64  // all events after this revision are here
	reached uint64  // the state's revision
	told    uint64  // and that up to which readers are told
	watches watches
	access  bool         // readers are to be judged again at the next Tell
	after   *state.State // that of the last entry appended; nil after Restore
}

// New makes an empty ring that begins behind the given revision, that of the state
// the replica begins with. It will keep at most maxEvents events of together about
// maxBytes; one that has room for none sends every reader that is behind to read
// the state.
func New(maxEvents int, maxBytes int64, revision uint64) *Ring {
	return &Ring{maxEvents: maxEvents, maxBytes: maxBytes, floor: revision, reached: revision, told: revision}
}

// Append adds the events among the changes of one entry, which readers are told
// after the next Tell. One goroutine calls it, for each entry in the log's order,
// after the state that the entry led to is published, so that who is told of an
// event finds it in the state. after is that state: everything up to its revision
// is told then.
func (r *Ring) Append(changes []state.Change, after *state.State) {
	fresh := fresh(changes, after)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range fresh {
		r.add(e)
	}
	r.trim()
	r.reached, r.after = after.Revision, after
	r.access = r.access || slices.ContainsFunc(changes, func(c state.Change) bool { _, ok := c.(state.AccessChanged); return ok })
}

// Publish has readers told all that was appended.
func (r *Ring) Publish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told == r.reached && !r.access {
		return
	}
	before := r.told
	if r.told = r.reached; r.floor > before || r.access { // some that were to be told are gone, or may be
		r.access = false
		r.watches.begin()
		return
	}
	fresh := r.events[behind(r.events, before):]
	for i := range fresh {
		r.watches.see(&fresh[i], r.after)
	}
}

// behind is the place of the first event after a revision.
func behind(all []Event, revision uint64) int {
	i, _ := slices.BinarySearchFunc(all, revision+1, func(e Event, revision uint64) int { return cmp.Compare(e.Revision, revision) })
	return i
}

// fresh are the events of changes.
func fresh(changes []state.Change, after *state.State) []Event {
	var all []Event
	owners := owners{changes: changes, after: after}
	for _, c := range changes {
		if e, ok := of(c); ok {
			switch {
			case e.hold != nil:
				e.owner = owners.of(e.hold.Session)
			case e.wait != nil:
				e.owner = owners.of(e.wait.Session)
			}
			all = append(all, e)
		}
	}
	return all
}

// owners finds the sessions of one entry's changes: in the state after it, or else
// among those that it ended.
type owners struct {
	changes []state.Change
	after   *state.State
	ended   map[string]*state.Session // by id; made when it is first needed
}

func (o *owners) of(id string) *Owner {
	s, ok := o.after.Session(id)
	if !ok {
		s = o.gone(id)
	}
	if s == nil {
		return &Owner{}
	}
	return &Owner{Name: s.Name, Principal: s.Principal, TTL: time.Duration(s.TTLMS) * time.Millisecond}
}

// gone is a session that the entry ended; nil where it did not.
func (o *owners) gone(id string) *state.Session {
	if o.ended == nil {
		o.ended = map[string]*state.Session{}
		for _, c := range o.changes {
			if c, ok := c.(state.SessionEnded); ok {
				o.ended[c.Session.ID] = c.Session
			}
		}
	}
	return o.ended[id]
}

// add puts an event at the end. A full array is replaced, not grown, by one with
// room for as many as are kept.
func (r *Ring) add(e Event) {
	if len(r.events) == cap(r.events) {
		r.trim()
		r.move()
	}
	r.events = append(r.events, e)
	r.bytes += e.bytes()
}

// trim drops the oldest events until the others are within the bounds. The array
// keeps those dropped alive for readers; it is replaced when they come to half of
// what the ring may have.
func (r *Ring) trim() {
	n := 0
	for ; len(r.events)-n > r.maxEvents || r.bytes > r.maxBytes; n++ {
		size := r.events[n].bytes()
		r.bytes -= size
		r.dead += size
		r.floor = r.events[n].Revision
	}
	r.events = r.events[n:]
	if r.dead > r.maxBytes/2 {
		r.move()
	}
}

// move copies the events to an array of their own.
func (r *Ring) move() {
	own := make([]Event, len(r.events), 2*len(r.events)+16)
	copy(own, r.events)
	r.events, r.dead = own, 0
}

// Restore empties the ring: it begins behind the revision of the restored state,
// which readers are told after the next Tell.
func (r *Ring) Restore(revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events, r.bytes, r.dead = nil, 0, 0
	r.floor, r.reached = revision, revision
	r.after = nil
}

// Compacted says that the ring does not reach back to where a reader was.
type Compacted struct {
	Oldest   uint64 // the smallest revision after which Read still answers
	Revision uint64 // which the state has: read it, and go on from there
}

func (c *Compacted) Error() string {
	return fmt.Sprintf("events up to revision %d are gone: read the state, which is at %d, and go on from there", c.Oldest, c.Revision)
}

// Read returns the events after a revision that pass the filter, in order, at most
// limit of them, and the revision up to which everything is told, never below
// after: the next Read goes on from there. After a revision that is not told yet
// there is nothing, and upTo is after. The error is a *Compacted.
func (r *Ring) Read(after uint64, f Filter, limit int) (events []Event, upTo uint64, err error) {
	r.mu.Lock()
	all, floor, told := r.events, r.floor, r.told
	r.mu.Unlock()
	if after < floor && floor <= told {
		return nil, after, &Compacted{Oldest: floor, Revision: told}
	}
	if after >= told || floor > told || limit <= 0 {
		return nil, after, nil
	}
	for i := behind(all, after); i < len(all) && all[i].Revision <= told; i++ {
		if !f.Passes(&all[i]) {
			continue
		}
		events = append(events, all[i])
		if len(events) == limit {
			return events, all[i].Revision, nil
		}
	}
	return events, told, nil
}
