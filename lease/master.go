package lease

import (
	"sync"
	"time"
)

// Master is the lease of a master within one term of office. The zero value is
// no lease. It is safe for concurrent use.
type Master struct {
	mu      sync.Mutex
	until   time.Duration
	renewed time.Duration // the proposal that made until
	newest  time.Duration // the latest proposal that was accepted, also after Drop
	term    time.Duration
	held    bool // was ever extended
	dropped bool
	lapsed  time.Duration
	counted time.Duration // lapses are counted up to here
}

// Extend records that a batch proposed at instant p with the given term was
// accepted. The lease runs to p + term × (1 − drift); an extension never
// shortens it. now is the present instant. If the lease had run out before, the
// time since then is a lapse, which Extend returns. After Drop it does nothing.
func (m *Master) Extend(p, term, now time.Duration, drift Drift) (lapse time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.newest = max(m.newest, p)
	until := p + drift.Short(term)
	if m.dropped || m.held && until <= m.until {
		return 0
	}
	if m.held && now > m.until {
		// Batches proposed before or in the lapse may be accepted one
		// after the other at its end, and may not revive the lease:
		// count the lapse once.
		lapse = now - max(m.until, m.counted)
		m.lapsed += lapse
		m.counted = now
	}
	m.until, m.renewed, m.term, m.held = until, p, term, true
	return lapse
}

// Valid reports whether the lease runs at now. A caller that acts on it must
// read the clock after the action, not before: read, then check.
func (m *Master) Valid(now time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held && !m.dropped && now < m.until
}

// Vouches reports whether no other replica can have been the master at the
// instant since: the lease runs at now, or a batch that was proposed at since
// or later was accepted.
func (m *Master) Vouches(since, now time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held && (!m.dropped && now < m.until || m.newest >= since)
}

// Drop ends the lease permanently: the first step of giving up office.
func (m *Master) Drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropped = true
}

// Lapsed returns how long the lease was out, in all, between extensions.
// Sessions get that time back, because they could not be kept alive in it.
func (m *Master) Lapsed() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lapsed
}

// View is a description of a lease.
type View struct {
	Held      bool
	Dropped   bool // permanently, by its holder
	Term      time.Duration
	Remaining time.Duration // zero unless Held
	Renewed   time.Duration // how long ago the proposal was made that renewed it
}

// View describes the lease at now.
func (m *Master) View(now time.Duration) View {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := View{Held: m.held && !m.dropped && now < m.until, Dropped: m.dropped, Term: m.term}
	if v.Held {
		v.Remaining = m.until - now
	}
	if m.held {
		v.Renewed = now - m.renewed
	}
	return v
}
