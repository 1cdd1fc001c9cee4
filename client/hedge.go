package client

import (
	"context"
	"time"
)

const (
	// hedgeAfter is how long a replica may be silent before another one is asked
	// as well. A healthy replica answers in a few milliseconds.
	hedgeAfter = 300 * time.Millisecond
	// mostPatience bounds how much a slow way to the cell adds to it.
	mostPatience = 2 * time.Second
	// lookAgain is how often a call that a master holds on purpose checks
	// whether that master has failed in the meantime.
	lookAgain = 5 * time.Second
	// linkTime bounds the answer to the probe of such a call, beyond the
	// patience for the way.
	linkTime = 700 * time.Millisecond
)

// hedge watches one attempt of a call, and starts a race when the replica is
// silent. A hanging replica accepts connections and does not answer; a call
// that only waits for it never reaches a healthy one.
//
// Only calls that may be under way twice are hedged. That costs the cell
// little, since the call forbids forwarding: a replica that is not the master
// answers 421. It is also rare: a master that holds a call on purpose, or that
// answers other calls in the meantime, starts no race.
type hedge struct {
	c    *caller
	ctx  context.Context // of the attempt
	r    *route
	q    *call
	race *race // once there is one

	probed   bool // whether the replica answers others
	patience time.Duration
	sent     time.Duration
}

// patience returns how long an attempt of the call may be silent before another
// replica is asked; 0 means for ever.
func (c *caller) patience(r *route, q *call) time.Duration {
	if !q.isHedged() || !c.targets.hasOther(r) {
		return 0
	}
	return r.patience()
}

// patience grows with the time of answers on this way.
func (r *route) patience() time.Duration {
	return min(max(hedgeAfter, 2*time.Duration(r.took.Load())), mostPatience)
}

// Late starts the race, unless the replica has answered another call since this
// one was sent: then it is the master, and only busy. A call that is meant to
// wait waits for its full time, unless the replica fails. One probe shows
// whether the link is dead.
func (h *hedge) Late() (again time.Duration, under context.Context) {
	now := h.c.clock.now()
	again = h.c.busy(h.r, now, h.sent, h.q.wait)
	if again == 0 {
		h.race = startRace(h)
		return 0, h.race.ctx
	}
	if heard := time.Duration(h.r.heard.Load()); h.q.wait > 0 && !h.probed && (heard <= h.sent || now-heard > lookAgain) {
		h.probed = true
		within := linkTime + h.r.patience()
		if c, r := h.c, h.r; r.probed.CompareAndSwap(false, true) { // one probe for all calls that wait there
			go func() {
				if c.probe(r, within) {
					r.heard.Store(int64(c.clock.now()))
				}
				r.probed.Store(false)
			}()
		}
		return min(again, within+hedgeAfter), nil
	}
	return min(again, lookAgain), nil
}

// busy returns how long not to ask another replica besides that of route r: 0
// if that has failed, or is silent without a reason.
func (c *caller) busy(r *route, now, sent, wait time.Duration) time.Duration {
	d := r.busy(now, sent, wait)
	if d == 0 && wait > 0 && r.heard.Load() != 0 {
		d = max(sent+wait+r.patience()-now, 0)
	}
	if d > 0 && wait > 0 && c.targets.fails(r.to.base) {
		return 0
	}
	return d
}

// busy returns how long not to check again on a master that has answered other
// calls since a call was sent to it, and still does if the call is overdue; 0
// if it has not.
func (r *route) busy(now, sent, wait time.Duration) time.Duration {
	heard, patience := time.Duration(r.heard.Load()), r.patience()
	switch due := sent + wait; {
	case heard <= sent:
		return 0
	case now < due:
		return due - now + patience
	case now < heard+patience:
		return patience
	}
	return 0
}

// hedged makes an attempt of a call over route r, and hedges it.
func (c *caller) hedged(ctx context.Context, r *route, q *call) (verdict, error) {
	q.hedge = hedge{c: c, ctx: ctx, r: r, q: q, patience: c.patience(r, q)}
	err := c.attempt(ctx, r, q)
	switch {
	case q.hedge.race != nil:
		return q.hedge.race.finish(&q.hedge, err)
	case err == nil:
		return giveUp, nil
	}
	next, _ := c.classify(ctx, r, q, err)
	return next, err
}
