package client

import "time"

// penalty makes the client prefer other endpoints to one that failed, until it
// has answered.
//
// A replica may still name it as the master. The client does not go back for that: the
// link to it may be dead while the replicas' own are well. It is probed in the background,
// and the probes are further apart the more often it fails. A penalty that is
// over is kept for mostPenalty, so that a link on which some answers come and
// others do not is left alone for longer and longer.
type penalty struct {
	length time.Duration // of the present pause
	until  time.Duration // clock at the end of the pause; of the answer where it is over
	probed bool          // a probe is under way
	over   bool          // the endpoint has answered
}

// punish begins a penalty, or makes one longer. mu is held.
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

// absolve ends the penalty of an endpoint that has answered. During the pause an
// answer counts for nothing: it may be a short one of a link that carries no
// long ones.
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
// has it probed when the pause is over. mu is held.
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

// isPunished takes the mutex and returns passesOver.
func (t *targets) isPunished(e *endpoint) bool {
	if t.punished.Load() == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.passesOver(e)
}

// fails reports whether an endpoint could not be reached when it was asked last.
func (t *targets) fails(base string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.penalties[base]
	return ok && !p.over
}

// mostPenalties bounds the endpoints that penalties are kept of. A cell has few
// replicas, but an answer may name any master.
const mostPenalties = 64

// forgive makes room for a penalty where there are too many: those whose pause
// is over go first. mu is held.
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
