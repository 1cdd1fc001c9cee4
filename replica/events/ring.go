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
	fresh     []Event // room of Append

	// mu guards the fields below. It is held to exchange or copy the slice,
	// never to search it. Each element is written once, behind the end of every
	// copied slice, and dropped elements are not cleared. So a reader needs no
	// mutex for its copy.
	mu        sync.Mutex
	events    []Event // in revision order, complete except at the front
	bytes     int64   // of events
	dead      int64   // bytes of dropped events that the array still keeps in memory
	floor     uint64  // all events after this revision are here
	reached   uint64  // the state's revision
	published uint64  // the revision up to which events are published
	watches   watches
	access    bool         // rights have changed: watches must be checked again at the next Publish
	after     *state.State // the state after the last entry appended; nil after Restore
}

// New returns an empty ring that begins after the given revision, the revision
// of the state with which the replica begins. It keeps at most maxEvents events
// of together about maxBytes. If it can keep no events, a Read from before its
// last revision returns Compacted.
func New(maxEvents int, maxBytes int64, revision uint64) *Ring {
	return &Ring{maxEvents: maxEvents, maxBytes: maxBytes, floor: revision, reached: revision, published: revision}
}

// Append adds the events among the changes of one entry. Readers get them after
// the next Publish. One goroutine calls Append, for each entry in log order,
// after publishing the state that follows from the entry. So a reader of an
// event finds it in the state. after is that state; the next Publish covers
// everything up to its revision.
func (r *Ring) Append(changes []state.Change, after *state.State) {
	r.fresh = fresh(r.fresh[:0], changes, after)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.fresh {
		r.add(&r.fresh[i])
	}
	clear(r.fresh)
	r.trim()
	r.reached, r.after = after.Revision, after
	r.access = r.access || slices.ContainsFunc(changes, func(c state.Change) bool { _, ok := c.(state.AccessChanged); return ok })
}

// mostVisited bounds the watches that Publish visits if there are no more of them:
// one step may delete thousands of files, and thousands of watches may match each of
// them. Beyond it Publish wakes all, to look for themselves.
const mostVisited = 1 << 16

// Publish makes everything appended visible to readers.
func (r *Ring) Publish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.published == r.reached && !r.access {
		return
	}
	before := r.published
	if r.published = r.reached; r.floor > before || r.access { // events to be published are gone, or may be
		r.access = false
		r.watches.wakeAll()
		return
	}
	fresh := r.events[behind(r.events, before):]
	for i, most := 0, max(mostVisited, r.watches.total); i < len(fresh); i++ {
		if most -= r.watches.notify(&fresh[i], r.after); most < 0 {
			r.watches.wakeFrom(fresh[i].Revision)
			return
		}
	}
}

// behind returns the index of the first event after a revision.
func behind(all []Event, revision uint64) int {
	i, _ := slices.BinarySearchFunc(all, revision+1, func(e Event, revision uint64) int { return cmp.Compare(e.Revision, revision) })
	return i
}

// fresh appends the events of changes.
func fresh(all []Event, changes []state.Change, after *state.State) []Event {
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

// owners finds the sessions of one entry's changes: in the state after it, or
// else among the sessions that the entry ended.
type owners struct {
	changes []state.Change
	after   *state.State
	ended   map[string]*state.Session // by id; made on first use
	last    *Owner                    // of the session with the id
	id      string
}

func (o *owners) of(id string) *Owner {
	if o.last == nil || o.id != id {
		o.last, o.id = o.find(id), id
	}
	return o.last
}

func (o *owners) find(id string) *Owner {
	s, ok := o.after.Session(id)
	if !ok {
		s = o.gone(id)
	}
	if s == nil {
		return &Owner{}
	}
	return &Owner{Name: s.Name, Principal: s.Principal, TTL: time.Duration(s.TTLMS) * time.Millisecond}
}

// gone returns a session that the entry ended, or nil.
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

// add appends an event. A full array is not grown, but replaced by one with
// room for twice the events kept, or a quarter more than it may keep.
func (r *Ring) add(e *Event) {
	if len(r.events) == cap(r.events) {
		r.trim()
		r.move()
	}
	r.events = append(r.events, *e)
	r.bytes += e.bytes()
}

// trim drops the oldest events until the rest is within the bounds. The array
// still holds the dropped events for readers. It is replaced when they exceed
// half of maxBytes.
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

// move copies the events to a new array.
func (r *Ring) move() {
	own := make([]Event, len(r.events), max(len(r.events), min(2*len(r.events), r.maxEvents+r.maxEvents/4))+16)
	copy(own, r.events)
	r.events, r.dead = own, 0
}

// Restore empties the ring. It then begins after the revision of the restored
// state, which readers learn at the next Publish. Access may have changed without a
// revision.
func (r *Ring) Restore(revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events, r.bytes, r.dead = nil, 0, 0
	r.floor, r.reached = revision, revision
	r.after, r.access = nil, true
}

// Compacted is the error for a reader at a revision before the ring's oldest
// event.
type Compacted struct {
	Oldest   uint64 // the smallest revision after which Read still answers
	Revision uint64 // of the state: read it, and continue from there
}

func (c *Compacted) Error() string {
	return fmt.Sprintf("events up to revision %d are gone: read the state, which is at %d, and continue from there", c.Oldest, c.Revision)
}

// Read returns the events after a revision that pass the filter, in order, at
// most limit of them. upTo is the revision up to which the result is complete,
// and never below after; the next Read continues from there. If after is not
// published yet, the result is empty and upTo is after. The error is a
// *Compacted.
func (r *Ring) Read(after uint64, f Filter, limit int) (events []Event, upTo uint64, err error) {
	r.mu.Lock()
	all, floor, published := r.events, r.floor, r.published
	r.mu.Unlock()
	if after < floor && floor <= published {
		return nil, after, &Compacted{Oldest: floor, Revision: published}
	}
	if after >= published || floor > published || limit <= 0 {
		return nil, after, nil
	}
	for i := behind(all, after); i < len(all) && all[i].Revision <= published; i++ {
		if !f.Passes(&all[i]) {
			continue
		}
		events = append(events, all[i])
		if len(events) == limit {
			return events, all[i].Revision, nil
		}
	}
	return events, published, nil
}
