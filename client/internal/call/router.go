package call

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Route is where calls go at present. With forward set the replica is asked to
// pass calls on, because the master that it names cannot be reached from here
// (its URL may belong to a network that only the replicas share).
type Route struct {
	To      *Endpoint
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

func (r *Route) key() routeKey { return routeKey{r.To.URL, r.forward} }

// Alive reports whether a master answered this way within the last d.
func (r *Route) Alive(now, d time.Duration) bool {
	heard := r.heard.Load()
	return heard != 0 && now-time.Duration(heard) < d
}

// answered records that a master has answered a call this way.
func (r *Route) answered(now time.Duration, q *Call) {
	r.heard.Store(int64(now))
	if q.Wait == 0 {
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
	current atomic.Pointer[Route] // nil while no replica is known
	// probe asks an endpoint whether it answers within a time; nil in tests.
	probe    func(*Route, time.Duration) bool
	punished atomic.Int32 // penalties that are not over, read without the mutex
	barren   atomic.Int32 // useless answers since the last useful one

	mu        sync.Mutex          // guards the following, and writing known
	last      int                 // index of the known endpoint chosen last
	penalties map[string]*penalty // by Endpoint.URL
	listening []*listener         // by watches, to endpoints
}

func newRouter(given []*Endpoint, now func() time.Duration) *router {
	rt := &router{now: now, penalties: make(map[string]*penalty)}
	rt.known.Store(&endpoints{})
	rt.set(given, nil)
	return rt
}

// pick returns the route to use now, or nil if no replica is known yet.
func (rt *router) pick() *Route { return rt.current.Load() }

// answered records that r works, and the master that its answer named, if any.
func (rt *router) answered(r *Route, master string) {
	if rt.punished.Load() > 0 {
		rt.absolve(r.To)
	}
	if rt.barren.Load() != 0 {
		rt.barren.Store(0)
	}
	if !r.To.works.Load() {
		r.To.works.Store(true)
		rt.finder.met(r.To)
	}
	rt.finder.want(lookEvery)
	if master == "" || master == r.To.URL {
		return
	}
	if e := rt.resolve(r, master); e != nil && e.URL != r.To.URL && rt.current.CompareAndSwap(r, &Route{To: e}) {
		rt.finder.want(soon)
	}
}

// redirected moves to the master that r named, or makes r forward to it if it
// cannot be reached. It returns that route, or nil if the name is useless.
func (rt *router) redirected(r *Route, master string) *Route {
	if master == "" || r.forward {
		rt.skip(r)
		return nil
	}
	r.To.works.Store(true)
	rt.finder.want(soon)
	next := &Route{To: r.To, forward: true}
	if e := rt.resolve(r, master); e != nil && e.URL != r.To.URL {
		next = &Route{To: e}
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
func (rt *router) hasOther(r *Route) bool {
	return slices.ContainsFunc(rt.known.Load().all, func(e *Endpoint) bool { return e.URL != r.To.URL })
}

// some returns up to n replicas to ask, each once, the most promising first.
func (rt *router) some(n int) (out []*Endpoint) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for range n {
		e := rt.next(func(e *Endpoint) bool { return slices.Contains(out, e) })
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
func (rt *router) other(asked func(*Route) bool) *Route {
	if r := rt.pick(); !asked(r) {
		return r
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if e := rt.next(func(e *Endpoint) bool { return asked(&Route{To: e}) }); e != nil {
		return &Route{To: e}
	}
	return nil
}

// skip moves on from a replica that answered but knows no master.
func (rt *router) skip(r *Route) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.moveOn(r)
}

// moveOn moves to the next replica, if calls use r at present. mu is held.
func (rt *router) moveOn(r *Route) {
	if rt.current.Load() != r {
		return
	}
	// The finder ignores want during a look, and a look may get an old answer
	// of the DNS. So each further useless answer calls want again.
	if int(rt.barren.Add(1)) >= 2*rt.known.Load().given {
		rt.finder.want(urgently)
	}
	to := rt.next(func(e *Endpoint) bool { return e.URL == r.To.URL })
	if to == nil {
		to = r.To
	}
	rt.current.Store(&Route{To: to})
}

// failed moves on from an endpoint that did not answer, and passes it over
// until it answers. Watches leave it.
func (rt *router) failed(r *Route) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, l := range rt.listening {
		if l.base == r.To.URL {
			l.leave()
		}
	}
	r.To.works.Store(false)
	rt.finder.want(soon)
	rt.punish(r.To.URL)
	rt.moveOn(r)
}

// Listens registers a watch's connection to an endpoint: leave ends it when the
// endpoint fails. The caller calls ended when the connection has ended.
func (rt *router) Listens(e *Endpoint, leave func()) (ended func()) {
	l := &listener{e.URL, leave}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.listening = append(rt.listening, l)
	return func() {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		rt.listening = slices.DeleteFunc(rt.listening, func(o *listener) bool { return o == l })
	}
}

// listener is a watch with a connection to the endpoint at base.
type listener struct {
	base  string
	leave func()
}

// resolve returns the endpoint of a URL that r named. It is nil if the URL is
// malformed, if the endpoint has failed and not answered since, or if the URL
// leads from https to http: a private request must not cross the network in
// plain text. A URL that the caller gave to the client is allowed.
func (rt *router) resolve(r *Route, master string) *Endpoint {
	e, err := parseEndpoint(master)
	if err != nil {
		return nil
	}
	e, given := rt.same(e)
	if r.To.scheme == "https" && e.scheme != "https" && !given {
		return nil
	}
	if rt.isPunished(e) {
		return nil
	}
	return e
}

// same returns the known endpoint that equals e, otherwise e. A known endpoint
// equals e if it has the same URL. An endpoint of the DNS also does if it has
// e's address and has answered under its DNS name. given reports whether the
// caller gave it to the client.
func (rt *router) same(e *Endpoint) (own *Endpoint, given bool) {
	k := rt.known.Load()
	for i, o := range k.all {
		if o.URL == e.URL || o.name != "" && o.scheme == e.scheme && o.host == e.host && o.works.Load() {
			return o, i < k.given
		}
	}
	return e, false
}

// endpoints are the replicas that a client knows: an immutable value.
type endpoints struct {
	all   []*Endpoint // each once: first the given ones, then the learned ones
	given int         // number of those given, by URL or by DNS name
}

// AllKnown returns the known endpoints.
func (rt *router) AllKnown() []*Endpoint { return rt.known.Load().all }

// find returns the endpoint with that URL, or nil.
func (k *endpoints) find(base string) *Endpoint {
	if i := slices.IndexFunc(k.all, func(e *Endpoint) bool { return e.URL == base }); i >= 0 {
		return k.all[i]
	}
	return nil
}

// set replaces the given and the learned endpoints; nil keeps the present ones.
func (rt *router) set(given, learned []*Endpoint) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.setKnown(given, learned)
}

// mostLearned bounds the endpoints that are learned one by one.
const mostLearned = 32

// learn adds learned endpoints, and drops the oldest if there are too many.
func (rt *router) learn(more ...*Endpoint) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	was := rt.known.Load()
	learned := was.all[was.given:]
	for _, e := range more {
		if was.find(e.URL) == nil {
			learned = append(slices.Clip(learned), e)
		}
	}
	rt.setKnown(nil, learned[max(0, len(learned)-mostLearned):])
}

// setKnown is set with mu held. It keeps the Endpoints that are known, with
// their state.
func (rt *router) setKnown(given, learned []*Endpoint) {
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
		if now.find(e.URL) != nil {
			continue
		}
		if r := rt.current.Load(); r != nil && r.To.URL == e.URL {
			e = r.To
		} else if own := was.find(e.URL); own != nil {
			e = own
		}
		now.all = append(now.all, e)
	}
	if len(learned) == 0 {
		now.given = len(now.all)
	}
	rt.known.Store(now)
	if rt.current.Load() == nil && len(now.all) > 0 {
		rt.current.Store(&Route{To: now.all[0]})
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
func (rt *router) next(leftOut func(*Endpoint) bool) *Endpoint {
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

// Abandoned reports whether no known replica is left: gone holds for each given
// one, and each other one is gone or could not be reached.
func (rt *router) Abandoned(gone func(base string) bool) bool {
	k := rt.known.Load()
	for i, e := range k.all {
		if !gone(e.URL) && (i < k.given || !rt.isPunished(e)) {
			return false
		}
	}
	return true
}
