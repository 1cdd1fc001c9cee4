package master

import (
	"cmp"
	"slices"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// sessionEvents are the grants, and the ends of waits, that a session has to hear of and has
// not acknowledged, by number. They are guarded by the office's mutex.
type sessionEvents []sessionEvent

// sessionEvent is a grant to be told. It may come behind one with a higher number that
// was shown and acknowledged already: an acknowledgement counts only for what
// was shown.
type sessionEvent struct {
	seq   uint64
	hold  *state.Hold // or
	wait  *state.Wait // that was ended, since its session's principal may not lock there
	loss  *state.Loss // of a hold, without its session's doing
	shown bool
}

func (e sessionEvent) compare(seq uint64) int { return cmp.Compare(e.seq, seq) }

// inherit takes over the grant of an earlier office. That may have shown it,
// and the acknowledgement may be on its way: it counts as shown. sort has to
// follow.
func (es *sessionEvents) inherit(h *state.Hold) {
	*es = append(*es, sessionEvent{seq: h.EventSeq, hold: h, shown: true})
}

func (es sessionEvents) sort() {
	slices.SortFunc(es, func(a, b sessionEvent) int { return a.compare(b.seq) })
}

// inheritLoss takes over a loss of an earlier office, as inherit does a grant.
func (es *notices) inheritLoss(l *state.Loss) {
	*es = append(*es, notice{seq: l.EventSeq, loss: l, shown: true})
}

// lossReasons are the contract's words.
var lossReasons = map[state.LossReason]string{
	state.LostByForce:       lockapi.ReasonForced,
	state.LostByUndo:        lockapi.ReasonRemoved,
	state.LostByTransaction: lockapi.ReasonReplaced,
}

// add reports whether the grant is a new event.
func (es *sessionEvents) add(e sessionEvent) bool {
	i, known := slices.BinarySearchFunc(*es, e.seq, sessionEvent.compare)
	if !known {
		*es = slices.Insert(*es, i, e)
	}
	return !known
}

// remove drops the event with that number: the grant has ended.
func (es *sessionEvents) remove(seq uint64) {
	*es = slices.DeleteFunc(*es, func(e sessionEvent) bool { return e.seq == seq })
}

// acknowledge drops the events up to seq that were shown.
func (es *sessionEvents) acknowledge(seq uint64) {
	*es = slices.DeleteFunc(*es, func(e sessionEvent) bool { return e.shown && e.seq <= seq })
}

// show is the events in the form of the wire, to be put into an answer.
func (es sessionEvents) show() []lockapi.Event {
	out := make([]lockapi.Event, len(es))
	for i := range es {
		es[i].shown = true
		h := es[i].hold
		if l := es[i].loss; l != nil {
			out[i] = lockapi.Event{Seq: l.EventSeq, Type: lockapi.EventLockLost, Path: l.Path, Handle: l.Handle, Token: l.Token, Reason: lossReasons[l.Reason]}
			continue
		}
		if w := es[i].wait; w != nil {
			out[i] = lockapi.Event{Seq: es[i].seq, Type: lockapi.EventLockWithdrawn, Path: w.Path, Handle: w.Handle, Mode: mode(w.Mode), Reason: lockapi.ReasonDenied}
			continue
		}
		out[i] = lockapi.Event{Seq: h.EventSeq, Type: lockapi.EventLockGranted, Path: h.Path, Handle: h.Handle,
			Mode: mode(h.Mode), Token: h.Token, Sequencer: sequencer(h)}
	}
	return out
}
