package client

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/stoutlock/stout/lockapi"
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

// hedge asks several replicas for one call: the silent one and, at intervals,
// another one, until an answer settles the call. A hanging replica accepts
// connections and does not answer; a call that only waits for it never reaches
// a healthy one.
//
// Only calls that may be under way twice are hedged. That costs the cell
// little, since the call forbids forwarding: a replica that is not the master
// answers 421. It is also rare: a master that holds a call on purpose, or that
// answers other calls in the meantime, starts no hedge.
type hedge struct {
	c       *caller
	first   *call           // the call itself; its attempt is silent
	r       *route          // of that attempt
	fork    *call           // copied for each further attempt
	ctx     context.Context // ends with the hedge
	cancel  context.CancelFunc
	results chan attempt // that have finished
	outcome chan attempt // the one that ended the hedge
	pending map[routeKey]attempt
	account account // of all attempts but the first, which keeps its own
	pause   backoff
	hops    int   // redirects in a row
	last    error // of an attempt that did not settle the call
}

// attempt is one of several attempts of a call, with its own fork of the call.
type attempt struct {
	r       *route
	q       *call
	sent    time.Duration
	err     error
	settles bool // the error, or nil, is the call's outcome
}

// hedged makes an attempt of a call over route r, and hedges it.
func (c *caller) hedged(ctx context.Context, r *route, q *call) (verdict, error) {
	q.c, q.ctx, q.r, q.patience, q.probed, q.hedge = c, ctx, r, 0, false, nil
	if q.isHedged() && c.router.hasOther(r) {
		q.patience = r.patience()
	}
	err := c.attempt(ctx, r, q)
	switch {
	case q.hedge != nil:
		return q.hedge.finish(err)
	case err == nil:
		return giveUp, nil
	}
	next, _ := c.classify(ctx, r, q, err)
	return next, err
}

// patience grows with the time of answers on this way.
func (r *route) patience() time.Duration {
	return min(max(hedgeAfter, 2*time.Duration(r.took.Load())), mostPatience)
}

// Late starts the hedge, unless the replica has answered another call since
// this one was sent: then it is the master, and only busy. A call that is meant
// to wait waits for its full time, unless the replica fails. One probe shows
// whether the link is dead.
func (q *call) Late() (again time.Duration, under context.Context) {
	c, r, now := q.c, q.r, q.c.clock.now()
	again = c.holdOff(r, now, q.sent, q.wait)
	if again == 0 {
		q.hedge = startHedge(q)
		return 0, q.hedge.ctx
	}
	if heard := time.Duration(r.heard.Load()); q.wait > 0 && !q.probed && (heard <= q.sent || now-heard > lookAgain) {
		q.probed = true
		within := linkTime + r.patience()
		if r.probed.CompareAndSwap(false, true) { // one probe for all calls that wait there
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

// holdOff returns how long not to ask another replica besides that of route r:
// 0 if that has failed, or is silent without a reason.
func (c *caller) holdOff(r *route, now, sent, wait time.Duration) time.Duration {
	d := r.busy(now, sent, wait)
	if d == 0 && wait > 0 && r.heard.Load() != 0 {
		d = max(sent+wait+r.patience()-now, 0)
	}
	if d > 0 && wait > 0 && c.router.fails(r.to.base) {
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

func startHedge(q *call) *hedge {
	h := &hedge{
		c: q.c, first: q, r: q.r, fork: q.fork(), results: make(chan attempt), outcome: make(chan attempt, 1),
		pending: map[routeKey]attempt{q.r.key(): {r: q.r, q: q, sent: q.sent}},
	}
	h.ctx, h.cancel = context.WithCancel(q.ctx)
	go h.run()
	return h
}

func (h *hedge) run() {
	defer h.cancel()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-h.ctx.Done():
			h.end(attempt{err: h.last})
			return
		case <-next.C:
			if d := h.ask(); d > 0 {
				next.Reset(d)
			}
		case a := <-h.results:
			delete(h.pending, a.r.key())
			if a.q != h.first {
				h.account.add(a.q.account)
			}
			d := h.settle(&a)
			if a.settles {
				h.learn(&a)
				h.end(a)
				return
			}
			next.Reset(d)
		}
	}
}

// end delivers the outcome. Attempts still under way may take effect.
func (h *hedge) end(a attempt) {
	for _, p := range h.pending {
		if p.q != h.first {
			h.account.add(account{effective: true, unsettled: true, firstSent: p.sent})
		}
	}
	h.outcome <- a
}

// learn makes other calls go to the replica that settled this one, unless that
// is the first one. The first was silent long enough for a penalty, unless any
// replica may answer the call and take its time.
func (h *hedge) learn(a *attempt) {
	if a.r == h.r || isNonsense(a.err) {
		return
	}
	h.c.router.current.CompareAndSwap(h.r, a.r)
	if p, silent := h.pending[h.r.key()]; silent && !h.fork.any && !h.fork.stale && p.r.busy(h.c.clock.now(), p.sent, 0) == 0 {
		h.c.router.failed(h.r)
	}
}

// settle decides whether an answer settles the call; if not, it returns when to
// ask the next replica.
func (h *hedge) settle(a *attempt) time.Duration {
	if a.err == nil {
		a.settles = true
		return 0
	}
	h.c.log.Debug("stout: attempt failed", "method", a.q.method, "path", a.q.path, "replica", a.r.to.base, "error", a.err)
	next, to := h.c.classify(h.ctx, a.r, a.q, a.err)
	h.last = a.err
	if next == giveUp {
		if isNonsense(a.err) && len(h.pending) > 0 {
			return h.pause.next() // a healthy replica may still answer
		}
		a.settles = true
		return 0
	}
	if h.hops++; to == nil || h.hops > mostHops {
		h.hops = 0
		return h.pause.next()
	}
	if p, asked := h.pending[to.key()]; asked {
		// The named master is silent towards us. It may answer the replica that
		// names it.
		via := &route{to: a.r.to, forward: true}
		if h.c.clock.now()-p.sent < h.fork.wait+2*p.r.patience() || h.isAsked(via) {
			return h.pause.next()
		}
		to = via
	}
	return h.start(to)
}

// isAsked reports whether an answer on that route is pending.
func (h *hedge) isAsked(r *route) bool {
	_, asked := h.pending[r.key()]
	return asked
}

// ask asks the next replica, if there is reason and one that has not been
// asked. It returns when to ask another; 0 means after the next answer.
func (h *hedge) ask() time.Duration {
	now := h.c.clock.now()
	for _, p := range h.pending {
		if d := h.c.holdOff(p.r, now, p.sent, h.fork.wait); d > 0 {
			return min(d, lookAgain)
		}
	}
	if r := h.c.router.other(h.isAsked); r != nil {
		return h.start(r)
	}
	return 0
}

// start makes an attempt, which has no hedge of its own.
func (h *hedge) start(r *route) time.Duration {
	a := attempt{r: r, q: h.fork.fork(), sent: h.c.clock.now()}
	h.pending[r.key()] = a
	go func() {
		a.err = h.c.attempt(h.ctx, r, a.q)
		deliver(h.ctx, h.results, a)
	}()
	return r.patience()
}

// finish runs in the call's own goroutine when its attempt has ended with err.
// It waits for the outcome of the hedge and stores that in the call.
func (h *hedge) finish(err error) (verdict, error) {
	q := h.first
	deliver(h.ctx, h.results, attempt{r: h.r, q: q, sent: q.sent, err: err})
	a := <-h.outcome
	q.add(h.account)
	switch {
	case err == nil: // an answer counts, even one that arrives as the context ends
		return giveUp, nil
	case !a.settles:
		return retry, cmp.Or(a.err, err)
	case a.err == nil:
		q.adopt(a.q)
	}
	return giveUp, a.err
}

// askAll makes one attempt of a call at each of several replicas at once, with
// or without permission to forward it. It yields the attempts as they end.
func (c *caller) askAll(ctx context.Context, q *call, forward bool, to []*endpoint) iter.Seq[attempt] {
	return func(yield func(attempt) bool) {
		ended := make(chan attempt, len(to))
		for _, e := range to {
			a := attempt{r: &route{to: e, forward: forward}, q: q.fork()}
			go func() {
				a.err = c.attempt(ctx, a.r, a.q)
				ended <- a
			}()
		}
		for range to {
			if !yield(<-ended) {
				return
			}
		}
	}
}

// urgent sends a call to several replicas at once; each may forward it to the
// master. It is for a caller without time to try one after another. The first
// success wins, or a master's session_not_found. After another refusal, the
// other replicas may still succeed. Otherwise the error is a refusal, if there
// is one. r is the present route. The call must be repeatable any number of
// times.
func (c *caller) urgent(ctx context.Context, r *route, q *call) (failure error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for a := range c.askAll(ctx, q, true, c.router.some(mostAsked)) {
		switch {
		case a.err == nil:
			c.router.current.CompareAndSwap(r, a.r)
			q.adopt(a.q)
			return nil
		case errors.Is(a.err, lockapi.CodeSessionNotFound):
			return a.err
		}
		_, _ = c.classify(ctx, a.r, a.q, a.err) // for the penalties
		if failure == nil || isAnswer(a.err) {
			failure = a.err
		}
	}
	return failure
}
