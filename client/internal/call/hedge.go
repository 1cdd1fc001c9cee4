package call

import (
	"cmp"
	"context"
	"time"

	"github.com/stoutlock/stout/client/internal/timing"
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
	c       *Caller
	first   *Call           // the call itself; its attempt is silent
	r       *Route          // of that attempt
	fork    *Call           // copied for each further attempt
	ctx     context.Context // ends with the hedge
	cancel  context.CancelFunc
	results chan attempt // that have finished
	outcome chan attempt // the one that ended the hedge
	pending map[routeKey]attempt
	account account // of all attempts but the first, which keeps its own
	pause   timing.Backoff
	hops    int   // redirects in a row
	last    error // of an attempt that did not settle the call
}

// attempt is one of several attempts of a call, with its own fork of the call.
type attempt struct {
	r       *Route
	q       *Call
	sent    time.Duration
	err     error
	settles bool // the error, or nil, is the call's outcome
}

// hedged makes an attempt of a call over route r, and hedges it.
func (c *Caller) hedged(ctx context.Context, r *Route, q *Call) (verdict, error) {
	q.c, q.ctx, q.r, q.patience, q.probed, q.hedge = c, ctx, r, 0, false, nil
	if q.isHedged() && c.router.hasOther(r) {
		q.patience = r.Patience()
	}
	err := c.Attempt(ctx, r, q)
	switch {
	case q.hedge != nil:
		return q.hedge.finish(err)
	case err == nil:
		return giveUp, nil
	}
	next, _ := c.classify(ctx, r, q, err)
	return next, err
}

// Patience returns how long a replica may be silent on this route before
// another one is asked. It grows with the duration of its answers.
func (r *Route) Patience() time.Duration {
	return min(max(hedgeAfter, 2*time.Duration(r.took.Load())), mostPatience)
}

// Late starts the hedge, unless the replica has answered another call since
// this one was sent: then it is the master, and only busy. A call that is meant
// to wait waits for its full time, unless the replica fails. One probe shows
// whether the link is dead.
func (q *Call) Late() (again time.Duration, under context.Context) {
	c, r, now := q.c, q.r, q.c.Now()
	again = c.holdOff(r, now, q.sent, q.Wait)
	if again == 0 {
		q.hedge = startHedge(q)
		return 0, q.hedge.ctx
	}
	if heard := time.Duration(r.heard.Load()); q.Wait > 0 && !q.probed && (heard <= q.sent || now-heard > lookAgain) {
		q.probed = true
		within := linkTime + r.Patience()
		if r.probed.CompareAndSwap(false, true) { // one probe for all calls that wait there
			go func() {
				if c.probe(r, within) {
					r.heard.Store(int64(c.Now()))
				}
				r.probed.Store(false)
			}()
		}
		return min(again, within+hedgeAfter), nil
	}
	return min(again, lookAgain), nil
}

// holdOff returns how long to wait before another replica is asked besides that
// of route r. It is 0 if that replica has failed, or has no reason to be
// silent.
func (c *Caller) holdOff(r *Route, now, sent, wait time.Duration) time.Duration {
	d := r.busy(now, sent, wait)
	if d == 0 && wait > 0 && r.heard.Load() != 0 {
		d = max(sent+wait+r.Patience()-now, 0)
	}
	if d > 0 && wait > 0 && c.router.fails(r.To.URL) {
		return 0
	}
	return d
}

// busy returns how long to wait for a master that has answered another call
// since this one was sent. Once this call is overdue, that answer must also be
// younger than Patience. Otherwise busy returns 0.
func (r *Route) busy(now, sent, wait time.Duration) time.Duration {
	heard, patience := time.Duration(r.heard.Load()), r.Patience()
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

func startHedge(q *Call) *hedge {
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
			h.account.add(account{effective: true, Unanswered: true, FirstSent: p.sent})
		}
	}
	h.outcome <- a
}

// learn makes other calls go to the replica that settled this one, unless that
// is the first one. A first replica that is still silent gets a penalty, unless
// it answers other calls, or any replica may answer the call and take its time.
func (h *hedge) learn(a *attempt) {
	if a.r == h.r || IsInvalid(a.err) {
		return
	}
	h.c.router.current.CompareAndSwap(h.r, a.r)
	if p, silent := h.pending[h.r.key()]; silent && !h.fork.Any && !h.fork.Stale && p.r.busy(h.c.Now(), p.sent, 0) == 0 {
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
	h.c.Log.Debug("stout: attempt failed", "method", a.q.Method, "path", a.q.Path, "replica", a.r.To.URL, "error", a.err)
	next, to := h.c.classify(h.ctx, a.r, a.q, a.err)
	h.last = a.err
	if next == giveUp {
		if (IsInvalid(a.err) || IsBadToken(a.err)) && len(h.pending) > 0 {
			return h.pause.Next() // a healthy replica may still answer
		}
		a.settles = true
		return 0
	}
	if h.hops++; to == nil || h.hops > MostFollowed {
		h.hops = 0
		return h.pause.Next()
	}
	if p, asked := h.pending[to.key()]; asked {
		// The named master is silent towards us. It may answer the replica that
		// names it.
		via := &Route{To: a.r.To, forward: true}
		if h.c.Now()-p.sent < h.fork.Wait+2*p.r.Patience() || h.isAsked(via) {
			return h.pause.Next()
		}
		to = via
	}
	return h.start(to)
}

// isAsked reports whether an answer on that route is pending.
func (h *hedge) isAsked(r *Route) bool {
	_, asked := h.pending[r.key()]
	return asked
}

// ask asks the next replica, if there is reason and one that has not been
// asked. It returns when to ask another; 0 means after the next answer.
func (h *hedge) ask() time.Duration {
	now := h.c.Now()
	for _, p := range h.pending {
		if d := h.c.holdOff(p.r, now, p.sent, h.fork.Wait); d > 0 {
			return min(d, lookAgain)
		}
	}
	if r := h.c.router.other(h.isAsked); r != nil {
		return h.start(r)
	}
	return 0
}

// start makes an attempt, which has no hedge of its own.
func (h *hedge) start(r *Route) time.Duration {
	a := attempt{r: r, q: h.fork.fork(), sent: h.c.Now()}
	h.pending[r.key()] = a
	go func() {
		a.err = h.c.Attempt(h.ctx, r, a.q)
		deliver(h.ctx, h.results, a)
	}()
	return r.Patience()
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
		if a.q != q && a.settles && a.err == nil { // the other answer is dropped, and may be the one with the effect
			q.add(account{effective: true, Unanswered: true, FirstSent: a.sent})
		}
		return giveUp, nil
	case !a.settles:
		return retry, cmp.Or(a.err, err)
	case a.err == nil:
		q.adopt(a.q)
	}
	return giveUp, a.err
}

// deliver sends v on to, unless ctx ends first.
func deliver[T any](ctx context.Context, to chan<- T, v T) {
	select {
	case to <- v:
	case <-ctx.Done():
	}
}
