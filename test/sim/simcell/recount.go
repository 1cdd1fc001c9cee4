package simcell

import (
	"maps"
	"time"

	"github.com/stoutlock/stout/replica/state"
)

// recount: a new office counts the quotas' use from the state. The former
// office counted it call by call, and must have the same result once no call is
// under way.
func (w *world) recount(old, next *machine) {
	if old.process.master == nil || w.net.again > 0 {
		return
	}
	defer func(pauses bool) { w.pauses = pauses }(w.pauses)
	w.pauses = false
	w.until(3 * time.Second) // stalled goroutines continue
	w.muteAll(5 * time.Second)
	w.until(3500 * time.Millisecond)
	p := old.process
	if p == nil || p.master == nil {
		return
	}
	term, has, hasOf := termOf(p), used(p), p.master.UsedByPrincipals()
	before := w.oracle.latest()
	w.handOver(old, next)
	if !w.soon(next.leads) {
		return
	}
	w.soon(func() bool { return w.leader(old) == next })
	q := next.process
	if q == nil || q.master == nil || len(has) == 0 {
		return
	}
	counted, countedOf := used(q), q.master.UsedByPrincipals()
	w.oracle.look()
	if !w.silent() {
		return // a user that was mute before is not any more, and may have a call under way
	}
	if after := w.oracle.latest(); termOf(q) == term+1 && len(counted) > 0 && alike(before, after) {
		w.stats.check("recount")
		if !maps.Equal(has, counted) {
			w.fail("%s had counted %v for the quotas; %s counts %v from the same state", old.id, has, next.id, counted)
		}
		if own := countUse(after); !maps.Equal(hasOf, own) || !maps.Equal(countedOf, own) {
			w.fail("%s had counted %v for the quotas of principals; %s counts %v from the same state, which has %v", old.id, hasOf, next.id, countedOf, own)
		}
	}
}

// silent reports whether no user reaches any machine.
func (w *world) silent() bool {
	for _, u := range w.users {
		for _, m := range w.machines {
			if !w.net.isCut(u.name, m.id) {
				return false
			}
		}
	}
	return true
}

// termOf returns the epoch in which a process is the master, by its own
// knowledge.
func termOf(p *process) uint64 { return p.master.Known().Epoch }

// used returns the use of each quota as a master reports it.
func used(p *process) map[string]int64 {
	all := map[string]int64{}
	for _, q := range p.master.Quotas() {
		if q.Known {
			all[q.Name] = q.Used
		}
	}
	return all
}

// alike reports whether two states differ only by the office.
func alike(before, after *state.State) bool {
	return before.Epoch+1 == after.Epoch && before.Revision+1 == after.Revision && before.Counter == after.Counter &&
		before.SessionCount() == after.SessionCount() && before.WaitCount() == after.WaitCount() && delayed(before) == delayed(after) && answers(before) == answers(after)
}

// delayed returns the number of locks with a lock-delay.
func delayed(s *state.State) (n int) {
	for l := range s.Locks("", "") {
		if l.DelayID != 0 {
			n++
		}
	}
	return n
}

// answers returns the number of remembered answers.
func answers(s *state.State) (n int) {
	for v := range s.Sessions("") {
		n += s.Answers(v.ID).Len()
	}
	return n
}
