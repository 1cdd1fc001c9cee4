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

// The office keeps at least these numbers of a session's latest events, and not many
// more, so that one that acknowledges nothing does not fill the memory. Grants are bounded by the quota
// of holds. A client may lose more than a successor reports (state.MostLosses). One
// change of the rules may end all waits of a session at once.
const (
	mostLosses    = 8 * state.MostLosses
	mostWithdrawn = 1 << 14
)

// add reports whether the event is new.
func (es *sessionEvents) add(e sessionEvent) bool {
	i, known := slices.BinarySearchFunc(*es, e.seq, sessionEvent.compare)
	if known {
		return false
	}
	*es = slices.Insert(*es, i, e)
	switch {
	case e.loss != nil:
		es.trim(mostLosses, func(e sessionEvent) bool { return e.loss != nil })
	case e.wait != nil:
		es.trim(mostWithdrawn, func(e sessionEvent) bool { return e.wait != nil })
	}
	return true
}

// trim drops the oldest events of a kind if there are an eighth more than most.
func (es *sessionEvents) trim(most int, kind func(sessionEvent) bool) {
	if len(*es) <= most+most/8 {
		return
	}
	n := 0
	for _, e := range *es {
		if kind(e) {
			n++
		}
	}
	if n <= most+most/8 {
		return
	}
	*es = slices.DeleteFunc(*es, func(e sessionEvent) bool {
		drop := n > most && kind(e)
		if drop {
			n--
		}
		return drop
	})
}

// remove drops the event with that number: the grant has ended.
func (es *sessionEvents) remove(seq uint64) {
	*es = slices.DeleteFunc(*es, func(e sessionEvent) bool { return e.seq == seq })
}

// acknowledge drops the events up to seq that were shown.
func (es *sessionEvents) acknowledge(seq uint64) {
	*es = slices.DeleteFunc(*es, func(e sessionEvent) bool { return e.shown && e.seq <= seq })
}

// show returns the first events, up to the one that exhausts room, the bytes left in
// the answer, and marks them as shown. The others follow when these are acknowledged:
// each answer has at least one.
func (es sessionEvents) show(room *int) []lockapi.Event {
	out := []lockapi.Event{}
	for i := range es {
		if i > 0 && *room <= 0 {
			break
		}
		es[i].shown = true
		e := es[i].event()
		*room -= eventFrame + textSize(e.Path, e.Handle, e.Sequencer)
		out = append(out, e)
	}
	return out
}

func (e sessionEvent) event() lockapi.Event {
	h, w, l := e.hold, e.wait, e.loss
	switch {
	case l != nil:
		return lockapi.Event{Seq: l.EventSeq, Type: lockapi.EventLockLost, Path: l.Path, Handle: l.Handle, Token: l.Token, Reason: lossReasons[l.Reason]}
	case w != nil:
		return lockapi.Event{Seq: e.seq, Type: lockapi.EventLockWithdrawn, Path: w.Path, Handle: w.Handle, Mode: mode(w.Mode), Reason: lockapi.ReasonDenied}
	}
	return lockapi.Event{Seq: h.EventSeq, Type: lockapi.EventLockGranted, Path: h.Path, Handle: h.Handle,
		Mode: mode(h.Mode), Token: h.Token, Sequencer: sequencer(h)}
}
