package client

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// How long an endpoint that could not be reached is passed over: so long after
// the first failure, twice as long after each further one.
const (
	firstPenalty = time.Second
	mostPenalty  = 5 * time.Minute
)

// route is where calls go at present. With forward set the replica is asked to
// pass calls on, because the master it names cannot be reached from here (its
// URL may be one of a network that only the replicas share).
type route struct {
	to      *endpoint
	forward bool
	heard   atomic.Int64 // clock when a master last answered this way; 0 for never
	took    atomic.Int64 // time that it took for an answer that it gave at once
}

// routeKey tells the ways to ask a replica apart.
type routeKey struct {
	base    string
	forward bool
}

func (r *route) key() routeKey { return routeKey{r.to.base, r.forward} }

// alive says whether a master answered this way within the last d.
func (r *route) alive(now, d time.Duration) bool {
	heard := r.heard.Load()
	return heard != 0 && now-time.Duration(heard) < d
}

// answered notes that a master has answered a call this way.
func (r *route) answered(now time.Duration, q *call) {
	r.heard.Store(int64(now))
	if q.wait == 0 {
		r.took.Store(int64(now - q.hedge.sent))
	}
}

// targets chooses the replica to talk to: the master where it is known and can
// be reached, else one of the configured replicas in turn. All calls of a
// client share one choice, so that one of them finds the new master for all.
type targets struct {
	now        func() time.Duration
	configured []*endpoint
	current    atomic.Pointer[route]
	punished   atomic.Int32 // len(penalties), read without the mutex

	mu        sync.Mutex         // guards the following
	last      int                // configured endpoint that was taken
	penalties map[string]penalty // by endpoint.base
}

type penalty struct {
	length time.Duration
	until  time.Duration
}

func newTargets(configured []*endpoint, now func() time.Duration) *targets {
	t := &targets{now: now, configured: configured, penalties: make(map[string]penalty)}
	t.current.Store(&route{to: configured[0]})
	return t
}

// pick is the route to use now.
func (t *targets) pick() *route { return t.current.Load() }

// answered notes that r works, and the master that its answer named, if any.
func (t *targets) answered(r *route, master string) {
	if t.punished.Load() > 0 {
		t.mu.Lock()
		delete(t.penalties, r.to.base)
		t.punished.Store(int32(len(t.penalties)))
		t.mu.Unlock()
	}
	if master == "" || master == r.to.base {
		return
	}
	if e := t.resolve(r, master); e != nil && e.base != r.to.base {
		t.current.CompareAndSwap(r, &route{to: e})
	}
}

// redirected moves to the master that r named, or has r forward to it where it
// cannot be reached, and returns the way there: nil where the name is of no
// use.
func (t *targets) redirected(r *route, master string) *route {
	if master == "" || r.forward {
		t.skip(r)
		return nil
	}
	next := &route{to: r.to, forward: true}
	if e := t.resolve(r, master); e != nil && e.base != r.to.base {
		next = &route{to: e}
	}
	if !t.current.CompareAndSwap(r, next) {
		// Others may have gone there already: what they have heard counts.
		if now := t.current.Load(); now.key() == next.key() {
			return now
		}
	}
	return next
}

// hasOther reports whether there is another replica to ask than that of r.
func (t *targets) hasOther(r *route) bool {
	return slices.ContainsFunc(t.configured, func(e *endpoint) bool { return e.base != r.to.base })
}

// other is a way to a replica that is not asked yet: the one that all calls go
// by, else the next of those that were configured, one without a penalty first.
// It is nil where all are asked.
func (t *targets) other(asked func(*route) bool) *route {
	if r := t.pick(); !asked(r) {
		return r
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var found *route
	for range t.configured {
		t.last = (t.last + 1) % len(t.configured)
		r := &route{to: t.configured[t.last]}
		if asked(r) {
			continue
		}
		if t.now() >= t.penalties[r.to.base].until {
			return r
		}
		if found == nil {
			found = r
		}
	}
	return found
}

// any is a replica for what every one of them can tell: one at random; one
// without a penalty, and one that is not to be avoided, where there is such.
func (t *targets) any(avoid func(*endpoint) bool) *endpoint {
	for _, free := range []func(*endpoint) bool{
		func(e *endpoint) bool { return !avoid(e) && !t.isPunished(e) },
		func(e *endpoint) bool { return !avoid(e) },
	} {
		n := 0
		var found *endpoint
		for _, e := range t.configured {
			if !free(e) {
				continue
			}
			if n++; rand.N(n) == 0 {
				found = e
			}
		}
		if found != nil {
			return found
		}
	}
	return t.configured[rand.N(len(t.configured))]
}

// isPunished says whether an endpoint is to be passed over at present.
func (t *targets) isPunished(e *endpoint) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now() < t.penalties[e.base].until
}

// skip moves on from a replica that answered but has no master to offer.
func (t *targets) skip(r *route) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current.Load() == r {
		t.current.Store(&route{to: t.nextAfter(r.to)})
	}
}

// failed moves on from an endpoint that did not answer, and passes it over for
// some time.
func (t *targets) failed(r *route) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	p := t.penalties[r.to.base]
	if now >= p.until { // one count for all the calls that failed together
		p.length = min(max(2*p.length, firstPenalty), mostPenalty)
		p.until = now + p.length
		t.forgive(now)
		t.penalties[r.to.base] = p
		t.punished.Store(int32(len(t.penalties)))
	}
	if t.current.Load() == r {
		t.current.Store(&route{to: t.nextAfter(r.to)})
	}
}

// mostPenalties bounds the endpoints that penalties are kept of. A cell has
// few; whoever names masters that there are not may name many.
const mostPenalties = 64

// forgive makes room for a penalty where there are too many: those that are
// over go first. mu is held.
func (t *targets) forgive(now time.Duration) {
	for _, all := range []bool{false, true} {
		for base, p := range t.penalties {
			if len(t.penalties) < mostPenalties {
				return
			}
			if all || now >= p.until {
				delete(t.penalties, base)
			}
		}
	}
}

// nextAfter is the next configured endpoint in turn, without a penalty where
// there is one such, and another than was where there is another. mu is held.
func (t *targets) nextAfter(was *endpoint) *endpoint {
	now := t.now()
	var fallback *endpoint
	for range t.configured {
		t.last = (t.last + 1) % len(t.configured)
		e := t.configured[t.last]
		if e.base == was.base {
			continue
		}
		if now >= t.penalties[e.base].until {
			return e
		}
		if fallback == nil {
			fallback = e
		}
	}
	if fallback == nil {
		return t.configured[t.last]
	}
	return fallback
}

// resolve is the endpoint of a URL that r named, or nil where it is malformed,
// was not to be reached a moment ago, or leads from https to http: what was
// asked for in private is not to be told to the network. (Where the caller gave
// that very URL, he has said that it may.)
func (t *targets) resolve(r *route, master string) *endpoint {
	e, err := parseEndpoint(master)
	if err != nil || r.to.scheme == "https" && e.scheme != "https" && !t.isConfigured(e) {
		return nil
	}
	if t.punished.Load() == 0 {
		return e
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now() < t.penalties[e.base].until {
		return nil
	}
	return e
}

func (t *targets) isConfigured(e *endpoint) bool {
	return slices.ContainsFunc(t.configured, func(c *endpoint) bool { return c.base == e.base })
}
