package client

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An endpoint that failed is passed over until it has answered a probe. The
// first probe comes firstPenalty after the first failure. The time doubles with
// each further failure, up to mostPenalty.
const (
	firstPenalty = time.Second
	mostPenalty  = time.Minute
	probeTime    = 3 * time.Second // bounds its answer
)

// route is where calls go at present. With forward set the replica is asked to
// pass calls on, because the master that it names cannot be reached from here
// (its URL may belong to a network that only the replicas share).
type route struct {
	to      *endpoint
	forward bool
	heard   atomic.Int64 // clock when a master last answered this way, or a probe; 0 for never
	probed  atomic.Bool  // a probe is under way, see hedge
	took    atomic.Int64 // duration of an answer that did not wait
}

// routeKey distinguishes the ways to ask a replica.
type routeKey struct {
	base    string
	forward bool
}

func (r *route) key() routeKey { return routeKey{r.to.base, r.forward} }

// alive reports whether a master answered this way within the last d.
func (r *route) alive(now, d time.Duration) bool {
	heard := r.heard.Load()
	return heard != 0 && now-time.Duration(heard) < d
}

// answered records that a master has answered a call this way.
func (r *route) answered(now time.Duration, q *call) {
	r.heard.Store(int64(now))
	if q.wait == 0 {
		r.took.Store(int64(now - q.hedge.sent))
	}
}

// targets chooses the replica to call: the master if it is known and can be
// reached, otherwise the known replicas in turn. All calls of a client share
// one choice, so that one of them finds the new master for all.
type targets struct {
	now     func() time.Duration
	finder  *finder // is notified when to look for replicas; may be nil
	known   atomic.Pointer[known]
	current atomic.Pointer[route] // nil while no replica is known
	// probe asks an endpoint whether it answers within a time; nil in tests.
	probe    func(*route, time.Duration) bool
	punished atomic.Int32 // penalties that are not over, read without the mutex
	barren   atomic.Int32 // useless answers since the last useful one

	mu        sync.Mutex         // guards the following, and writing known
	last      int                // index of the known endpoint chosen last
	penalties map[string]penalty // by endpoint.base
}

func newTargets(given []*endpoint, now func() time.Duration) *targets {
	t := &targets{now: now, penalties: make(map[string]penalty)}
	t.known.Store(&known{})
	t.setGiven(given)
	return t
}

// pick returns the route to use now, or nil if no replica is known yet.
func (t *targets) pick() *route { return t.current.Load() }

// answered records that r works, and the master that its answer named, if any.
func (t *targets) answered(r *route, master string) {
	if t.punished.Load() > 0 {
		t.absolve(r.to)
	}
	if t.barren.Load() != 0 {
		t.barren.Store(0)
	}
	if !r.to.works.Load() {
		r.to.works.Store(true)
		t.finder.met(r.to)
	}
	t.finder.want(lookEvery)
	if master == "" || master == r.to.base {
		return
	}
	if e := t.resolve(r, master); e != nil && e.base != r.to.base && t.current.CompareAndSwap(r, &route{to: e}) {
		t.finder.want(soon)
	}
}

// redirected moves to the master that r named, or makes r forward to it if it
// cannot be reached. It returns that route, or nil if the name is useless.
func (t *targets) redirected(r *route, master string) *route {
	if master == "" || r.forward {
		t.skip(r)
		return nil
	}
	r.to.works.Store(true)
	t.finder.want(soon)
	next := &route{to: r.to, forward: true}
	if e := t.resolve(r, master); e != nil && e.base != r.to.base {
		next = &route{to: e}
	}
	if !t.current.CompareAndSwap(r, next) {
		// Other calls may have moved there already; keep their record of it.
		if now := t.current.Load(); now.key() == next.key() {
			return now
		}
	}
	return next
}

// hasOther reports whether there is another replica to ask than that of r.
func (t *targets) hasOther(r *route) bool {
	return slices.ContainsFunc(t.known.Load().all, func(e *endpoint) bool { return e.base != r.to.base })
}

// some returns up to n replicas to ask, each once, the most promising first.
func (t *targets) some(n int) (out []*endpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for range n {
		e := t.next(func(e *endpoint) bool { return slices.Contains(out, e) })
		if e == nil {
			break
		}
		out = append(out, e)
	}
	return out
}

// other returns a route to a replica that has not been asked: the current route
// of all calls, otherwise the next known replica. It is nil if all have been
// asked.
func (t *targets) other(asked func(*route) bool) *route {
	if r := t.pick(); !asked(r) {
		return r
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.next(func(e *endpoint) bool { return asked(&route{to: e}) }); e != nil {
		return &route{to: e}
	}
	return nil
}

// skip moves on from a replica that answered but knows no master.
func (t *targets) skip(r *route) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moveOn(r)
}

// moveOn moves to the next replica, if calls use r at present. mu is held.
func (t *targets) moveOn(r *route) {
	if t.current.Load() != r {
		return
	}
	// A wish during a look is dropped, and a look may find an old answer of the
	// DNS: so the wish is repeated each time.
	if int(t.barren.Add(1)) >= 2*t.known.Load().given {
		t.finder.want(urgently)
	}
	to := t.next(func(e *endpoint) bool { return e.base == r.to.base })
	if to == nil {
		to = r.to
	}
	t.current.Store(&route{to: to})
}

// failed moves on from an endpoint that did not answer, and passes it over
// until it answers.
func (t *targets) failed(r *route) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.to.works.Store(false)
	t.finder.want(soon)
	t.punish(r.to.base)
	t.moveOn(r)
}

// resolve returns the endpoint of a URL that r named. It is nil if the URL is
// malformed, if the endpoint has failed and not answered since, or if the URL
// leads from https to http: a private request must not cross the network in
// plain text. A URL that the caller gave to the client is allowed.
func (t *targets) resolve(r *route, master string) *endpoint {
	e, err := parseEndpoint(master)
	if err != nil {
		return nil
	}
	e, given := t.same(e)
	if r.to.scheme == "https" && e.scheme != "https" && !given {
		return nil
	}
	if t.isPunished(e) {
		return nil
	}
	return e
}

// same returns the known endpoint that equals e, otherwise e. A known endpoint
// equals e if it has the same base. An endpoint of the DNS also does if it has
// e's address and has answered under its DNS name. given reports whether the
// caller gave it to the client.
func (t *targets) same(e *endpoint) (own *endpoint, given bool) {
	k := t.known.Load()
	for i, o := range k.all {
		if o.base == e.base || o.name != "" && o.scheme == e.scheme && o.host == e.host && o.works.Load() {
			return o, i < k.given
		}
	}
	return e, false
}
