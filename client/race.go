package client

import (
	"cmp"
	"context"
	"reflect"
	"time"
)

// race asks several replicas for one call: the silent ones and, at intervals,
// another one, until an answer settles the call.
type race struct {
	c        *caller
	template call            // of the attempts
	ctx      context.Context // ends with the race
	cancel   context.CancelFunc
	results  chan racer // of finished attempts
	outcome  chan racer // of the race
	pending  map[routeKey]racer
	account  account // of all attempts but the first, which keeps its own
	pause    backoff
	hops     int   // redirects in a row
	last     error // of an attempt that did not settle the call
}

// racer is one attempt, with its own account of the call.
type racer struct {
	r       *route
	q       *call
	sent    time.Duration
	err     error
	settles bool // the error, or nil, is the call's outcome
}

func startRace(h *hedge) *race {
	a := &race{
		c: h.c, template: *h.q, results: make(chan racer), outcome: make(chan racer, 1),
		pending: map[routeKey]racer{h.r.key(): {r: h.r, q: h.q, sent: h.sent}},
	}
	a.template.hedge = hedge{}
	a.ctx, a.cancel = context.WithCancel(h.ctx)
	go a.run(h.q, h.r)
	return a
}

// run runs the race. first is the attempt that was silent, on route r.
func (a *race) run(first *call, r *route) {
	defer a.cancel()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-a.ctx.Done():
			a.end(racer{err: a.last}, first)
			return
		case <-next.C:
			if d := a.ask(); d > 0 {
				next.Reset(d)
			}
		case e := <-a.results:
			delete(a.pending, e.r.key())
			if e.q != first {
				a.account.add(e.q.account)
			}
			d := a.settle(&e)
			if e.settles {
				a.learn(r, &e)
				a.end(e, first)
				return
			}
			next.Reset(d)
		}
	}
}

// end delivers the outcome. Attempts still under way may take effect.
func (a *race) end(e racer, first *call) {
	for _, p := range a.pending {
		if p.q != first {
			a.account.add(account{effective: true, unsettled: true, firstSent: p.sent})
		}
	}
	a.outcome <- e
}

// learn makes other calls go to the replica that settled this one, unless that
// is the first one, of route r. The first was silent long enough for a penalty,
// unless any replica may answer the call and take its time.
func (a *race) learn(r *route, e *racer) {
	if e.r == r || isNonsense(e.err) {
		return
	}
	a.c.targets.current.CompareAndSwap(r, e.r)
	if p, silent := a.pending[r.key()]; silent && !a.template.any && !a.template.stale && p.r.busy(a.c.clock.now(), p.sent, 0) == 0 {
		a.c.targets.failed(r)
	}
}

// settle decides whether an answer settles the call; if not, it returns when to
// ask the next replica.
func (a *race) settle(e *racer) time.Duration {
	if e.err == nil {
		e.settles = true
		return 0
	}
	a.c.log.Debug("stout: attempt failed", "method", e.q.method, "path", e.q.path, "replica", e.r.to.base, "error", e.err)
	next, to := a.c.classify(a.ctx, e.r, e.q, e.err)
	a.last = e.err
	if next == giveUp {
		if isNonsense(e.err) && len(a.pending) > 0 {
			return a.pause.next() // a healthy replica may still answer
		}
		e.settles = true
		return 0
	}
	if a.hops++; to == nil || a.hops > mostHops {
		a.hops = 0
		return a.pause.next()
	}
	if p, asked := a.pending[to.key()]; asked {
		// The named master is silent towards us. It may answer the replica that
		// names it.
		via := &route{to: e.r.to, forward: true}
		if a.c.clock.now()-p.sent < a.template.wait+2*p.r.patience() || a.isAsked(via) {
			return a.pause.next()
		}
		to = via
	}
	return a.start(to)
}

// isAsked reports whether an answer on that route is pending.
func (a *race) isAsked(r *route) bool {
	_, asked := a.pending[r.key()]
	return asked
}

// ask asks the next replica, if there is reason and one that has not been
// asked. It returns when to ask another; 0 means after the next answer.
func (a *race) ask() time.Duration {
	now := a.c.clock.now()
	for _, p := range a.pending {
		if d := a.c.busy(p.r, now, p.sent, a.template.wait); d > 0 {
			return min(d, lookAgain)
		}
	}
	r := a.c.targets.other(a.isAsked)
	if r == nil {
		return 0
	}
	return a.start(r)
}

// start makes an attempt without a hedge of its own. The answer has its own
// memory, so a late one overwrites no other.
func (a *race) start(r *route) time.Duration {
	q := a.template
	if q.out != nil {
		q.out = reflect.New(reflect.TypeOf(q.out).Elem()).Interface()
	}
	e := racer{r: r, q: &q, sent: a.c.clock.now()}
	a.pending[r.key()] = e
	go func() {
		e.err = a.c.attempt(a.ctx, r, e.q)
		deliver(a.ctx, a.results, e)
	}()
	return r.patience()
}

// finish runs in the call's own goroutine when its attempt has ended with err.
// It waits for the outcome of the race and stores that in the call.
func (a *race) finish(h *hedge, err error) (verdict, error) {
	q := h.q
	deliver(a.ctx, a.results, racer{r: h.r, q: q, sent: h.sent, err: err})
	e := <-a.outcome
	q.add(a.account)
	switch {
	case err == nil: // an answer counts, even one that arrives as the context ends
		return giveUp, nil
	case !e.settles:
		return retry, cmp.Or(e.err, err)
	case e.err == nil && q.out != nil:
		reflect.ValueOf(q.out).Elem().Set(reflect.ValueOf(e.q.out).Elem())
	}
	return giveUp, e.err
}
