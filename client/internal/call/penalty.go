package call

import "time"

// An endpoint that failed is passed over until it has answered a probe. The
// first probe comes firstPenalty after the first failure. The time doubles with
// each further failure, up to mostPenalty.
const (
	firstPenalty = time.Second
	mostPenalty  = time.Minute
	probeTime    = 3 * time.Second // bounds its answer
)

// penalty makes the client prefer other endpoints to one that failed, until it
// has answered.
//
// A replica may still name it as the master. The client does not return to it
// for that: the link to it may be dead while the replicas' own links are
// healthy. It is probed in the background, at growing intervals while it fails.
// A penalty that is over counts for mostPenalty more, so that a link on which
// only some answers arrive is passed over for longer and longer.
type penalty struct {
	length time.Duration // of the present pause
	until  time.Duration // clock at the end of the pause, or of the answer once it is over
	probed bool          // a probe is under way
	over   bool          // the endpoint has answered
}

// punish begins a penalty, or extends one. mu is held.
func (rt *router) punish(base string) {
	now, p := rt.now(), rt.penalties[base]
	switch {
	case p == nil:
		rt.forgive(now)
		p = new(penalty)
		rt.penalties[base] = p
	case !p.over && now < p.until:
		return // one count for all the calls that failed together
	case p.over && now-p.until > mostPenalty:
		p.length = 0
	}
	p.length = min(max(2*p.length, firstPenalty), mostPenalty)
	p.until, p.over = now+p.length, false
	rt.countPunished()
}

// absolve ends the penalty of an endpoint that has answered. During the pause
// an answer has no effect: it may be a short one on a link that loses long
// ones.
func (rt *router) absolve(e *Endpoint) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	now := rt.now()
	if p := rt.penalties[e.URL]; p != nil && !p.over && now >= p.until {
		p.over, p.until = true, now
		rt.countPunished()
	}
}

// countPunished counts the penalties that are not over. mu is held.
func (rt *router) countPunished() {
	n := int32(0)
	for _, p := range rt.penalties {
		if !p.over {
			n++
		}
	}
	rt.punished.Store(n)
}

// passesOver reports whether an endpoint has failed and not answered since. It
// starts a probe when the pause is over. mu is held.
func (rt *router) passesOver(e *Endpoint) bool {
	p := rt.penalties[e.URL]
	if p == nil || p.over {
		return false
	}
	if rt.now() >= p.until && !p.probed && rt.probe != nil {
		p.probed = true
		go func() {
			rt.probe(&Route{To: e}, probeTime)
			rt.mu.Lock()
			defer rt.mu.Unlock()
			p.probed = false
		}()
	}
	return true
}

// isPunished is passesOver under the mutex.
func (rt *router) isPunished(e *Endpoint) bool {
	if rt.punished.Load() == 0 {
		return false
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.passesOver(e)
}

// fails is passesOver without a probe.
func (rt *router) fails(base string) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	p := rt.penalties[base]
	return p != nil && !p.over
}

// mostPenalties bounds the endpoints with penalties. A cell has few replicas,
// but an answer may name any master.
const mostPenalties = 64

// forgive makes room for another penalty; it removes finished ones first. mu is
// held.
func (rt *router) forgive(now time.Duration) {
	for _, all := range []bool{false, true} {
		for base, p := range rt.penalties {
			if len(rt.penalties) < mostPenalties {
				return
			}
			if all || now >= p.until {
				delete(rt.penalties, base)
			}
		}
	}
}
