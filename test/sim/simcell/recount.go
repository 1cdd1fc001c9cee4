package simcell

import (
	"maps"
	"time"

	"github.com/stoutlock/stout/replica/state"
)

// recount: a new office counts what the quotas count from the state. What the
// one before it had counted, call by call, is the same, once no call is under
// way.
func (w *world) recount() {
	old, next := w.well()
	if old == nil || old.process.master == nil || w.net.again > 0 {
		return
	}
	defer func(pauses bool) { w.pauses = pauses }(w.pauses)
	w.pauses = false
	w.until(3 * time.Second) // what stalls goes on
	w.silence(5 * time.Second)
	w.until(3500 * time.Millisecond)
	p := old.process
	if p == nil || p.master == nil {
		return
	}
	term, has := termOf(p), used(p)
	before := w.judge.latest()
	w.handOver(old, next)
	if !w.soon(next.leads) {
		return
	}
	w.soon(func() bool { return w.leader(old) == next })
	q := next.process
	if q == nil || q.master == nil || len(has) == 0 {
		return
	}
	counted := used(q)
	w.judge.look()
	if !w.silent() {
		return // somebody was mute before, and is not any more: it may have a call under way
	}
	if after := w.judge.latest(); termOf(q) == term+1 && len(counted) > 0 && alike(before, after) {
		w.stats.check("recount")
		if !maps.Equal(has, counted) {
			w.fail("%s had counted %v of the quotas; %s counts %v from the same state", old.id, has, next.id, counted)
		}
	}
}

// silent reports whether no user is heard by anybody.
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

// termOf is the epoch in which a process is the master, as it knows it.
func termOf(p *process) uint64 { return p.master.Known().Epoch }

// used is how much of each quota is used, by a master's word.
func used(p *process) map[string]int64 {
	all := map[string]int64{}
	for _, q := range p.master.Quotas() {
		if q.Known {
			all[q.Name] = q.Used
		}
	}
	return all
}

// alike reports whether two states differ in nothing but the office.
func alike(before, after *state.State) bool {
	return before.Epoch+1 == after.Epoch && before.Revision+1 == after.Revision && before.Counter == after.Counter &&
		before.SessionCount() == after.SessionCount() && before.WaitCount() == after.WaitCount() && delayed(before) == delayed(after) && answers(before) == answers(after)
}

// delayed is how many locks have a lock-delay.
func delayed(s *state.State) (n int) {
	for l := range s.Locks("", "") {
		if l.DelayID != 0 {
			n++
		}
	}
	return n
}

// answers is how many are remembered.
func answers(s *state.State) (n int) {
	for v := range s.Sessions("") {
		n += s.Answers(v.ID).Len()
	}
	return n
}
