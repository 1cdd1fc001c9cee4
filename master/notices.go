package master

import (
	"cmp"
	"slices"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// notices are the grants that a session has to hear of and has not acknowledged,
// by number. They are guarded by the office's mutex.
type notices []notice

// notice is a grant to be told. It may come behind one with a higher number that
// was shown and acknowledged already: an acknowledgement counts only for what
// was shown.
type notice struct {
	hold  *state.Hold
	shown bool
}

func (e notice) compare(seq uint64) int { return cmp.Compare(e.hold.EventSeq, seq) }

// inherit takes over the grant of an earlier office. That may have shown it,
// and the acknowledgement may be on its way: it counts as shown. sort has to
// follow.
func (es *notices) inherit(h *state.Hold) { *es = append(*es, notice{hold: h, shown: true}) }

func (es notices) sort() {
	slices.SortFunc(es, func(a, b notice) int { return a.compare(b.hold.EventSeq) })
}

// add reports whether the grant is a new event.
func (es *notices) add(h *state.Hold) bool {
	i, known := slices.BinarySearchFunc(*es, h.EventSeq, notice.compare)
	if !known {
		*es = slices.Insert(*es, i, notice{hold: h})
	}
	return !known
}

// remove drops the event with that number: the grant has ended.
func (es *notices) remove(seq uint64) {
	*es = slices.DeleteFunc(*es, func(e notice) bool { return e.hold.EventSeq == seq })
}

// acknowledge drops the events up to seq that were shown.
func (es *notices) acknowledge(seq uint64) {
	*es = slices.DeleteFunc(*es, func(e notice) bool { return e.shown && e.hold.EventSeq <= seq })
}

// show is the events in the form of the wire, to be put into an answer.
func (es notices) show() []lockapi.Event {
	out := make([]lockapi.Event, len(es))
	for i := range es {
		es[i].shown = true
		h := es[i].hold
		out[i] = lockapi.Event{Seq: h.EventSeq, Type: lockapi.EventLockGranted, Path: h.Path, Handle: h.Handle,
			Mode: mode(h.Mode), Token: h.Token, Sequencer: sequencer(h)}
	}
	return out
}
