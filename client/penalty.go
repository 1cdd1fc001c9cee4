package client

import "time"

// penalty makes the client prefer other endpoints to one that failed, until it
// has answered.
//
// A replica may still name it as the master. The client does not return to it
// for that: the link to it may be dead while the replicas' own links are
// healthy. It is probed in the background, at growing intervals while it fails.
// A penalty that is over is kept for mostPenalty, so that a link on which only
// some answers arrive is passed over for longer and longer.
type penalty struct {
	length time.Duration // of the present pause
	until  time.Duration // clock at the end of the pause, or of the answer once it is over
	probed bool          // a probe is under way
	over   bool          // the endpoint has answered
}

// punish begins a penalty, or extends one. mu is held.
func (t *targets) punish(base string) {
	now, p := t.now(), t.penalties[base]
	switch {
	case !p.over && now < p.until:
		return // one count for all the calls that failed together
	case p.over && now-p.until > mostPenalty:
		p.length = 0
	}
	p.length = min(max(2*p.length, firstPenalty), mostPenalty)
	p.until, p.over = now+p.length, false
	t.forgive(now)
	t.setPenalty(base, p)
}

// absolve ends the penalty of an endpoint that has answered. During the pause
// an answer has no effect: it may be a short one on a link that loses long
// ones.
func (t *targets) absolve(e *endpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if p, ok := t.penalties[e.base]; ok && !p.over && now >= p.until {
		p.over, p.until = true, now
		t.setPenalty(e.base, p)
	}
}

// setPenalty stores a penalty. mu is held.
func (t *targets) setPenalty(base string, p penalty) {
	t.penalties[base] = p
	n := int32(0)
	for _, p := range t.penalties {
		if !p.over {
			n++
		}
	}
	t.punished.Store(n)
}

// passesOver reports whether an endpoint has failed and not answered since. It
// starts a probe when the pause is over. mu is held.
func (t *targets) passesOver(e *endpoint) bool {
	p, ok := t.penalties[e.base]
	if !ok || p.over {
		return false
	}
	if t.now() >= p.until && !p.probed && t.probe != nil {
		p.probed = true
		t.penalties[e.base] = p
		go func() {
			t.probe(&route{to: e}, probeTime)
			t.mu.Lock()
			defer t.mu.Unlock()
			if p, ok := t.penalties[e.base]; ok {
				p.probed = false
				t.penalties[e.base] = p
			}
		}()
	}
	return true
}

// isPunished is passesOver under the mutex.
func (t *targets) isPunished(e *endpoint) bool {
	if t.punished.Load() == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.passesOver(e)
}

// fails reports whether an endpoint could not be reached on the last attempt.
func (t *targets) fails(base string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.penalties[base]
	return ok && !p.over
}

// mostPenalties bounds the endpoints with penalties. A cell has few replicas,
// but an answer may name any master.
const mostPenalties = 64

// forgive removes penalties if there are too many, finished ones first. mu is
// held.
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
