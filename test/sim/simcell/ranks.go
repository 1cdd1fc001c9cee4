package simcell

import "github.com/stoutlock/stout/replica/state"

// In half of the runs some requests for locks have a priority. The model orders
// the queues; the oracle requires that each wait has a priority that its user
// requested.

// rank draws the priority of a request, mostly the lowest, and records it. The
// pair of a request through the SDK has no handle. All priorities are equal once
// all users must be served.
func (u *user) rank(p pair) int {
	n := 0
	if u.w.profile.ranks && !u.w.quiet {
		n = pick(u.ranks, 0, 0, 1, 7, 7, 100)
	}
	u.w.oracle.ranked(p, n)
	return n
}

// ranked records a request. A master drops its priority while the cell, as far as
// its own state shows, has members of a release that does not know priorities.
func (o *oracle) ranked(p pair, priority int) {
	if o.ranks[p] == nil {
		o.ranks[p] = map[int]bool{}
	}
	o.ranks[p][priority] = true
	for _, m := range o.w.machines {
		if now := m.process; now != nil && now.replica != nil && !now.replica.State().QueuesByPriority() {
			o.ranks[p][0] = true
		}
	}
}

// enqueued checks the priority of a new wait.
func (o *oracle) enqueued(after *state.State, w *state.Wait) {
	p := pair{w.Session, w.Path, w.Handle}
	if !isBare(w.Handle) {
		p.handle = ""
	}
	requested := o.ranks[p]
	if requested == nil {
		return // a request that never has a priority
	}
	o.w.stats.check("priority of a wait")
	if !requested[int(w.Priority)] {
		o.w.fail("entry %d: %.4s/%s waits for %s with priority %d, which it has not requested", after.Index, w.Session, w.Handle, w.Path, w.Priority)
	}
	if w.Priority > 0 {
		o.w.stats.check("wait with priority")
	}
}
