package master

import (
	"math"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/quota"
	"github.com/stoutlock/stout/replica/state/access"
)

// The quota of calls per second. Each replica counts the calls that it
// executes, after it has identified the caller and before it checks rights: a
// caller without rights costs as much.

// Backoff is how to answer a call beyond its principal's calls per second.
type Backoff struct {
	For   time.Duration // the answer waits for so long
	Close bool          // the connection is closed after the answer
}

// Keepalives and releases have a generous quota of their own. A principal that
// has used up the quota of other calls must still keep its locks, and be able
// to release them.
const (
	keptTimes = 10  // as many as other calls
	keptMore  = 100 // a second, and in addition one for each session and hold
)

// A refused call is answered when another call may be admitted, but not before
// leastBackoff and not after mostBackoff. A principal's refusals are answered at
// intervals of refusalEvery. If more of them wait than fit into mostBackoff, the
// next call is answered at once, and its connection is closed.
const (
	leastBackoff = 500 * time.Millisecond
	mostBackoff  = time.Second
	refusalEvery = 10 * time.Millisecond
)

// mostPaced bounds the principals that a pacer remembers: a JWT issuer may have
// any number.
const mostPaced = 1 << 16

// pacer counts the calls of the principals with a quota of calls per second. It
// forgets the principals that have not called for a while.
type pacer struct {
	mu    sync.Mutex
	of    map[string]*paced
	sweep int // the number of principals at which to forget some
}

// paced are the calls of a principal.
type paced struct {
	calls, kept backlog
	answers     time.Duration // when the last refusal is answered
}

// backlog is what is left of calls: they are worked off at until, at a rate per
// second.
type backlog struct {
	until time.Duration
	rate  float64
}

// admit counts a call at a rate per second, with burst calls at once. It
// returns how many calls are not worked off, and if the call does not fit, how
// long it must wait. With another rate than before, as many calls are left, but no
// more than a burst.
func (b *backlog) admit(now time.Duration, rate, burst float64) (left float64, wait time.Duration) {
	ahead := float64(max(0, b.until-now))
	if burst < 1 || rate <= 0 {
		return ahead * b.rate / float64(time.Second), mostBackoff
	}
	every := float64(time.Second) / rate
	if b.rate != rate {
		ahead = min(ahead*b.rate/rate, burst*every)
		b.until, b.rate = now+time.Duration(min(ahead, math.MaxInt64/2)), rate
	}
	if free := ahead - (burst-1)*every; free > 0 {
		return ahead / every, time.Duration(math.Ceil(min(free, float64(mostBackoff))))
	}
	b.until = now + time.Duration(ahead+every) // rounded down: a whole burst fits
	return 0, 0
}

// forget drops the principals that would be admitted as if they had never
// called. If there are too many others, it drops some of them.
func (p *pacer) forget(now time.Duration) {
	for who, c := range p.of {
		if c.calls.until <= now && c.kept.until <= now && c.answers <= now {
			delete(p.of, who)
		}
	}
	for who := range p.of { // many at once, so that most calls need not walk the map
		if len(p.of) <= mostPaced/2 {
			break
		}
		delete(p.of, who)
	}
	p.sweep = max(1024, 2*len(p.of))
}

// admit counts a call of a principal, or returns how many calls are left and how
// to answer it.
func (p *pacer) admit(who string, now time.Duration, rate, burst float64, kept bool) (left float64, backoff Backoff, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.of[who]
	if c == nil {
		if p.of == nil {
			p.of = map[string]*paced{}
		}
		if len(p.of) >= p.sweep {
			p.forget(now)
		}
		c = &paced{}
		p.of[who] = c
	}
	of := &c.calls
	if kept {
		of = &c.kept
	}
	left, wait := of.admit(now, rate, burst)
	if wait == 0 {
		return 0, Backoff{}, true
	}
	next := max(c.answers, now)
	if next-now > mostBackoff-refusalEvery {
		return left, Backoff{Close: true}, false
	}
	c.answers = next + refusalEvery
	return left, Backoff{For: min(mostBackoff, max(leastBackoff, wait, c.answers-now))}, false
}

// BoundsCalls reports whether any quota applies to calls.
func (m *Master) BoundsCalls() bool {
	s := m.log.State()
	return s.AccessOn && s.Policy().QuotaCount() > 0
}

// AdmitCall counts a call against its caller's calls per second. The error is
// too_many. frees means that the call keeps or frees what the caller has.
func (m *Master) AdmitCall(by *Caller, frees bool) (Backoff, error) {
	s := m.log.State()
	if !m.BoundsCalls() || by.identify(s) != nil { // which the check of the call reports
		return Backoff{}, nil
	}
	who := by.who().Identity()
	if who == access.Anonymous && !s.Policy().NamesAnonymous() {
		return Backoff{}, nil // no call is open to it
	}
	limits := s.Policy().LimitsOf(who)
	limit := limits[access.CallsPerSecond]
	if limit == access.NoLimit {
		return Backoff{}, nil
	}
	rate, burst := float64(limit), float64(limits[access.Burst])
	if frees {
		has := 0.0
		if o := m.inOffice(); o != nil {
			used := o.quotas.UsedBy(who)
			has = float64(used.Sessions + used.Holds)
		}
		rate = keptTimes*rate + keptMore + has
		burst = max(rate, keptTimes*burst)
	}
	left, backoff, ok := m.pacer.admit(who, m.opts.Clock(), rate, burst, frees)
	if ok {
		return Backoff{}, nil
	}
	m.refused[quota.PrincipalCalls].Add(1)
	e := lockapi.TooMany(quota.PrincipalCalls.Name(), int64(left), int64(rate), "quota calls_per_second of %s is used up: at most %d calls a second are allowed, and %d at once; call less often, or have the quota raised",
		who, int64(rate), int64(burst))
	e.Principal, e.RetryAfter = who, int(mostBackoff/time.Second)
	return backoff, e
}

// Watcher returns the caller of a call that waits for events, and how many such
// calls it may have at this replica. It returns false while access is off.
func (m *Master) Watcher(by *Caller) (who string, most int64, bounded bool) {
	s := m.log.State()
	if !s.AccessOn || by.identify(s) != nil {
		return "", access.NoLimit, false
	}
	who = by.who().Identity()
	limits := s.Policy().LimitsOf(who)
	return who, limits[access.Watches], true
}

// RefuseWatch counts the refusal of a call that waits for events, and returns
// its error.
func (m *Master) RefuseWatch(who string, used, most int64) error {
	m.refused[quota.PrincipalWatches].Add(1)
	e := lockapi.TooMany(quota.PrincipalWatches.Name(), used, most, "quota watches of %s is used up: %d of its calls wait for events at this replica, at most %d are allowed; end some of them, call another replica, or have the quota raised",
		who, used, most)
	e.Principal, e.RetryAfter = who, 1
	return e
}
