package master

import (
	"cmp"
	"slices"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// sessionEvents are a session's events that it has not acknowledged, by number:
// grants, ended waits and lost holds. The office's mutex guards them.
type sessionEvents []sessionEvent

// sessionEvent is a grant, the end of a wait, or the loss of a hold. It may be
// added after an event with a higher number was shown and acknowledged: an
// acknowledgement covers only events that were shown.
type sessionEvent struct {
	seq   uint64
	hold  *state.Hold // a grant; nil for other events
	wait  *state.Wait // ended because its session's principal may not lock there; nil for other events
	loss  *state.Loss // of a hold that another caller ended; nil for other events
	shown bool
}

func (e sessionEvent) compare(seq uint64) int { return cmp.Compare(e.seq, seq) }

// inherit adds an event of an earlier office. That office may have shown it, and
// the acknowledgement may be on its way, so it counts as shown. The caller must
// call sort afterwards.
func (es *sessionEvents) inherit(e sessionEvent) {
	e.shown = true
	*es = append(*es, e)
}

func (es sessionEvents) sort() {
	slices.SortFunc(es, func(a, b sessionEvent) int { return a.compare(b.seq) })
}

// lossReasons maps the reasons to the words of the contract.
var lossReasons = map[state.LossReason]string{
	state.LostByForce:       lockapi.ReasonForced,
	state.LostByUndo:        lockapi.ReasonRemoved,
	state.LostByTransaction: lockapi.ReasonReplaced,
}

// mostEvents bounds the lost holds and ended waits that the office keeps for a
// session; the oldest go first. Grants are bounded by the quota of holds. A client
// may lose more than a successor reports (state.MostLosses), but one that
// acknowledges nothing does not fill the memory.
const mostEvents = 8 * state.MostLosses

// add reports whether the event is new.
func (es *sessionEvents) add(e sessionEvent) bool {
	i, known := slices.BinarySearchFunc(*es, e.seq, sessionEvent.compare)
	if known {
		return false
	}
	*es = slices.Insert(*es, i, e)
	if e.hold == nil && len(*es) > mostEvents {
		es.trim()
	}
	return true
}

// trim drops the oldest event that is no grant, if there are too many.
func (es *sessionEvents) trim() {
	ended, oldest := 0, -1
	for i, e := range *es {
		if e.hold == nil {
			if ended++; oldest < 0 {
				oldest = i
			}
		}
	}
	if ended > mostEvents {
		*es = slices.Delete(*es, oldest, oldest+1)
	}
}

// remove drops the event with that number: the grant has ended.
func (es *sessionEvents) remove(seq uint64) {
	*es = slices.DeleteFunc(*es, func(e sessionEvent) bool { return e.seq == seq })
}

// acknowledge drops the events up to seq that were shown.
func (es *sessionEvents) acknowledge(seq uint64) {
	*es = slices.DeleteFunc(*es, func(e sessionEvent) bool { return e.shown && e.seq <= seq })
}

// show returns the events for an answer and marks them as shown.
func (es sessionEvents) show() []lockapi.Event {
	out := make([]lockapi.Event, len(es))
	for i := range es {
		es[i].shown = true
		h, w, l := es[i].hold, es[i].wait, es[i].loss
		switch {
		case l != nil:
			out[i] = lockapi.Event{Seq: l.EventSeq, Type: lockapi.EventLockLost, Path: l.Path, Handle: l.Handle, Token: l.Token, Reason: lossReasons[l.Reason]}
		case w != nil:
			out[i] = lockapi.Event{Seq: es[i].seq, Type: lockapi.EventLockWithdrawn, Path: w.Path, Handle: w.Handle, Mode: mode(w.Mode), Reason: lockapi.ReasonDenied}
		default:
			out[i] = lockapi.Event{Seq: h.EventSeq, Type: lockapi.EventLockGranted, Path: h.Path, Handle: h.Handle,
				Mode: mode(h.Mode), Token: h.Token, Sequencer: sequencer(h)}
		}
	}
	return out
}
