package client

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// route is where calls go at present. With forward set the replica is asked to
// pass calls on, because the master that it names cannot be reached from here
// (its URL may belong to a network that only the replicas share).
type route struct {
	to      *endpoint
	forward bool
	heard   atomic.Int64 // clock when a master last answered this way, or a probe; 0 for never
	probed  atomic.Bool  // a probe is under way, see call.Late
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
		r.took.Store(int64(now - q.sent))
	}
}

// router chooses the replica to call: the master if it is known and can be
// reached, otherwise the known replicas in turn. All calls of a client share
// one choice, so that one of them finds the new master for all.
type router struct {
	now     func() time.Duration
	finder  *finder // is notified when to look for replicas; may be nil
	known   atomic.Pointer[endpoints]
	current atomic.Pointer[route] // nil while no replica is known
	// probe asks an endpoint whether it answers within a time; nil in tests.
	probe    func(*route, time.Duration) bool
	punished atomic.Int32 // penalties that are not over, read without the mutex
	barren   atomic.Int32 // useless answers since the last useful one

	mu        sync.Mutex          // guards the following, and writing known
	last      int                 // index of the known endpoint chosen last
	penalties map[string]*penalty // by endpoint.base
	listening []listener          // by watches, to endpoints
}

func newRouter(given []*endpoint, now func() time.Duration) *router {
	rt := &router{now: now, penalties: make(map[string]*penalty)}
	rt.known.Store(&endpoints{})
	rt.set(given, nil)
	return rt
}

// pick returns the route to use now, or nil if no replica is known yet.
func (rt *router) pick() *route { return rt.current.Load() }

// answered records that r works, and the master that its answer named, if any.
func (rt *router) answered(r *route, master string) {
	if rt.punished.Load() > 0 {
		rt.absolve(r.to)
	}
	if rt.barren.Load() != 0 {
		rt.barren.Store(0)
	}
	if !r.to.works.Load() {
		r.to.works.Store(true)
		rt.finder.met(r.to)
	}
	rt.finder.want(lookEvery)
	if master == "" || master == r.to.base {
		return
	}
	if e := rt.resolve(r, master); e != nil && e.base != r.to.base && rt.current.CompareAndSwap(r, &route{to: e}) {
		rt.finder.want(soon)
	}
}

// redirected moves to the master that r named, or makes r forward to it if it
// cannot be reached. It returns that route, or nil if the name is useless.
func (rt *router) redirected(r *route, master string) *route {
	if master == "" || r.forward {
		rt.skip(r)
		return nil
	}
	r.to.works.Store(true)
	rt.finder.want(soon)
	next := &route{to: r.to, forward: true}
	if e := rt.resolve(r, master); e != nil && e.base != r.to.base {
		next = &route{to: e}
	}
	if !rt.current.CompareAndSwap(r, next) {
		// Other calls may have moved there already; keep their record of it.
		if now := rt.current.Load(); now.key() == next.key() {
			return now
		}
	}
	return next
}

// hasOther reports whether there is another replica to ask than that of r.
func (rt *router) hasOther(r *route) bool {
	return slices.ContainsFunc(rt.known.Load().all, func(e *endpoint) bool { return e.base != r.to.base })
}

// some returns up to n replicas to ask, each once, the most promising first.
func (rt *router) some(n int) (out []*endpoint) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for range n {
		e := rt.next(func(e *endpoint) bool { return slices.Contains(out, e) })
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
func (rt *router) other(asked func(*route) bool) *route {
	if r := rt.pick(); !asked(r) {
		return r
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if e := rt.next(func(e *endpoint) bool { return asked(&route{to: e}) }); e != nil {
		return &route{to: e}
	}
	return nil
}

// skip moves on from a replica that answered but knows no master.
func (rt *router) skip(r *route) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.moveOn(r)
}

// moveOn moves to the next replica, if calls use r at present. mu is held.
func (rt *router) moveOn(r *route) {
	if rt.current.Load() != r {
		return
	}
	// A wish during a look is dropped, and a look may find an old answer of the
	// DNS: so the wish is repeated each time.
	if int(rt.barren.Add(1)) >= 2*rt.known.Load().given {
		rt.finder.want(urgently)
	}
	to := rt.next(func(e *endpoint) bool { return e.base == r.to.base })
	if to == nil {
		to = r.to
	}
	rt.current.Store(&route{to: to})
}

// failed moves on from an endpoint that did not answer, and passes it over
// until it answers. Watches leave it.
func (rt *router) failed(r *route) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, l := range rt.listening {
		if l.w.at.base == r.to.base {
			l.leave()
		}
	}
	r.to.works.Store(false)
	rt.finder.want(soon)
	rt.punish(r.to.base)
	rt.moveOn(r)
}

// listens makes leave the function that ends a watch's connection to its
// endpoint; nil means that the connection has ended.
func (rt *router) listens(w *watch, leave func()) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.listening = slices.DeleteFunc(rt.listening, func(l listener) bool { return l.w == w })
	if leave != nil {
		rt.listening = append(rt.listening, listener{w, leave})
	}
}

// listener is a watch with a connection, and what ends that.
type listener struct {
	w     *watch
	leave func()
}

// resolve returns the endpoint of a URL that r named. It is nil if the URL is
// malformed, if the endpoint has failed and not answered since, or if the URL
// leads from https to http: a private request must not cross the network in
// plain text. A URL that the caller gave to the client is allowed.
func (rt *router) resolve(r *route, master string) *endpoint {
	e, err := parseEndpoint(master)
	if err != nil {
		return nil
	}
	e, given := rt.same(e)
	if r.to.scheme == "https" && e.scheme != "https" && !given {
		return nil
	}
	if rt.isPunished(e) {
		return nil
	}
	return e
}

// same returns the known endpoint that equals e, otherwise e. A known endpoint
// equals e if it has the same base. An endpoint of the DNS also does if it has
// e's address and has answered under its DNS name. given reports whether the
// caller gave it to the client.
func (rt *router) same(e *endpoint) (own *endpoint, given bool) {
	k := rt.known.Load()
	for i, o := range k.all {
		if o.base == e.base || o.name != "" && o.scheme == e.scheme && o.host == e.host && o.works.Load() {
			return o, i < k.given
		}
	}
	return e, false
}

// endpoints are the replicas that a client knows: an immutable value.
type endpoints struct {
	all   []*endpoint // each once: first the given ones, then the learned ones
	given int         // number of those given, by URL or by DNS name
}

// find returns the endpoint with that base, or nil.
func (k *endpoints) find(base string) *endpoint {
	if i := slices.IndexFunc(k.all, func(e *endpoint) bool { return e.base == base }); i >= 0 {
		return k.all[i]
	}
	return nil
}

// set replaces the given and the learned endpoints; nil keeps the present ones.
func (rt *router) set(given, learned []*endpoint) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.setKnown(given, learned)
}

// mostLearned bounds the endpoints that are learned one by one.
const mostLearned = 32

// learn adds learned endpoints, and drops the oldest if there are too many.
func (rt *router) learn(more ...*endpoint) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	was := rt.known.Load()
	learned := was.all[was.given:]
	for _, e := range more {
		if was.find(e.base) == nil {
			learned = append(slices.Clip(learned), e)
		}
	}
	rt.setKnown(nil, learned[max(0, len(learned)-mostLearned):])
}

// setKnown is set with mu held. It keeps the record of known endpoints.
func (rt *router) setKnown(given, learned []*endpoint) {
	was, now := rt.known.Load(), &endpoints{}
	if given == nil {
		given = was.all[:was.given]
	}
	if learned == nil {
		learned = was.all[was.given:]
	}
	for i, e := range slices.Concat(given, learned) {
		if i == len(given) {
			now.given = len(now.all)
		}
		if now.find(e.base) != nil {
			continue
		}
		if r := rt.current.Load(); r != nil && r.to.base == e.base {
			e = r.to
		} else if own := was.find(e.base); own != nil {
			e = own
		}
		now.all = append(now.all, e)
	}
	if len(learned) == 0 {
		now.given = len(now.all)
	}
	rt.known.Store(now)
	if rt.current.Load() == nil && len(now.all) > 0 {
		rt.current.Store(&route{to: now.all[0]})
	}
}

// barrenRounds is how often all given endpoints are asked in vain before the
// learned ones have their turn.
const barrenRounds = 4

// next returns the endpoint to ask next, in turn, or nil; leftOut excludes
// some. A learned endpoint that has never answered may belong to a network that
// only the replicas share. It comes after the others, so that learning it does
// no harm, until the others have given no useful answer for some rounds (as
// during an election). One with a penalty comes last. mu is held.
func (rt *router) next(leftOut func(*endpoint) bool) *endpoint {
	k := rt.known.Load()
	barren := int(rt.barren.Load()) >= barrenRounds*k.given
	best, lowest := -1, 0
	for n := range k.all {
		i := (rt.last + 1 + n) % len(k.all)
		e := k.all[i]
		if leftOut(e) {
			continue
		}
		rank := 0
		if i >= k.given && !e.works.Load() && !barren {
			rank = 1
		}
		if rt.passesOver(e) {
			rank += 2
		}
		if best < 0 || rank < lowest {
			best, lowest = i, rank
		}
	}
	if best < 0 {
		return nil
	}
	if lowest >= 2 {
		rt.finder.want(urgently)
	}
	rt.last = best
	return k.all[best]
}

// any returns a random replica for a question that every replica can answer. It
// prefers one that is not to be avoided, has no penalty, and was given or has
// answered. Its last resort is one that was learned, has never answered and has
// a penalty. It is nil if no replica is known.
func (rt *router) any(avoid func(*endpoint) bool) (found *endpoint) {
	k := rt.known.Load()
	proven := func(i int) bool { return i < k.given || k.all[i].works.Load() }
	for _, free := range []func(i int) bool{
		func(i int) bool { return proven(i) && !avoid(k.all[i]) && !rt.isPunished(k.all[i]) },
		func(i int) bool { return !avoid(k.all[i]) && !rt.isPunished(k.all[i]) },
		func(i int) bool { return proven(i) && !avoid(k.all[i]) },
		proven,
		func(i int) bool { return !avoid(k.all[i]) },
	} {
		n := 0
		for i, e := range k.all {
			if !free(i) {
				continue
			}
			if n++; rand.N(n) == 0 {
				found = e
			}
		}
		if found != nil {
			break
		}
	}
	return found
}

// abandoned reports whether no known replica is left: gone holds for each given
// one, and each other one is gone or could not be reached.
func (rt *router) abandoned(gone func(base string) bool) bool {
	k := rt.known.Load()
	for i, e := range k.all {
		if !gone(e.base) && (i < k.given || !rt.isPunished(e)) {
			return false
		}
	}
	return true
}
