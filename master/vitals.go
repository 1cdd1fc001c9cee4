package master

import (
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/internal/histogram"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// Vitals are the figures by which people watch a cell and are called when it is
// not well, as this replica knows them.
type Vitals struct {
	Location             // the master that is known, if one is
	Lease     lease.View // this replica's own: none where it is not in office
	LeaseTerm time.Duration
	// Sessions, Locks, Waiters and Files are those of this replica's state, and
	// Content is the bytes of content of the files.
	Sessions, Locks, Waiters, Files int
	Content                         int64
	// Deadlocks is how many circles of sessions that wait for each other it has, at
	// most lockapi.MaxDeadlocks; in a large cell of a moment ago.
	Deadlocks int
	// Resigned counts the offices that this replica gave up by itself, by reason.
	Resigned map[string]uint64
	// Offices is how often this replica took office since it was started, and
	// Expired how many sessions expired while it was in office.
	Offices, Expired uint64
	Committed        histogram.Snapshot // from the proposal of a batch to its outcome
	Margin           histogram.Snapshot // what was left of the lease when it was renewed
	Waited           histogram.Snapshot // time in a queue, of those who got the lock
	Held             histogram.Snapshot // from a grant to its end, by the wall clock
	Queued, Replied  histogram.Snapshot // the first stage of a write, and the last
	Linear, Stale    histogram.Snapshot // how long reads took
	// Kept is what was left of a session's lease when a keepalive of it came, in
	// parts of its ttl: a second is the whole of it.
	Kept histogram.Snapshot
	// What it took to come into office: to apply what was committed before, to wait
	// for the leases of earlier masters, and to have the office opened in the log.
	Barrier, Outwaited, Opening histogram.Snapshot
	Replica                     membership.Vitals
	Quotas                      []QuotaUse // how far each quota is used up
}

// vitals are counted where they arise, over all offices of this replica.
type vitals struct {
	offices, expired                atomic.Uint64
	resigned                        map[string]*atomic.Uint64 // by reason; its keys do not change
	committed, margin, waited, held *histogram.Histogram
	queued, replied                 *histogram.Histogram
	linear, stale                   *histogram.Histogram
	keptAlive                       *histogram.Histogram
	barrier, outwaited, opening     *histogram.Histogram
}

func newVitals(term time.Duration) *vitals {
	const us, ms, s = time.Microsecond, time.Millisecond, time.Second
	stage := func() *histogram.Histogram { return histogram.New(histogram.Stages...) }
	read := func() *histogram.Histogram {
		return histogram.New(us, 2500*time.Nanosecond, 5*us, 10*us, 25*us, 50*us, 100*us, 250*us, 500*us, ms, 5*ms, 25*ms, 100*ms, 500*ms, 2*s)
	}
	step := func() *histogram.Histogram { return histogram.New(histogram.Steps...) }
	resigned := make(map[string]*atomic.Uint64, len(reasons))
	for _, reason := range reasons {
		resigned[reason] = new(atomic.Uint64)
	}
	return &vitals{
		resigned:  resigned,
		committed: histogram.New(500*us, ms, 2500*us, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 250*ms, 500*ms, s, 2500*ms, 5*s, 10*s),
		margin:    histogram.New(0, term/10, term/5, 3*term/10, 2*term/5, term/2, 3*term/5, 7*term/10, 4*term/5, 9*term/10),
		waited:    histogram.New(10*ms, 100*ms, s, 10*s, time.Minute, 10*time.Minute, time.Hour, 24*time.Hour),
		held:      histogram.New(ms, 10*ms, 100*ms, s, 10*s, time.Minute, 10*time.Minute, time.Hour, 24*time.Hour, 7*24*time.Hour),
		queued:    stage(), replied: stage(), linear: read(), stale: read(),
		keptAlive: histogram.New(0, s/20, s/10, s/5, 3*s/10, 2*s/5, s/2, 3*s/5, 7*s/10, 4*s/5, 9*s/10, 19*s/20),
		barrier:   step(), outwaited: step(), opening: step(),
	}
}

// reasons are those for which a master gives up its office: a step that hangs, and
// what makes it unfit (see unfit).
var reasons = []string{"disk", "apply", "raft", "propose", "answer", "mutex", "open", slowDisk, lostLease, unsentSnapshot}

// resignedFor counts an office that ended by itself.
func (v *vitals) resignedFor(reason string) {
	if n := v.resigned[reason]; n != nil {
		n.Add(1)
	}
}

// resignations returns the number of offices that ended by themselves, for each reason.
func (v *vitals) resignations() map[string]uint64 {
	all := make(map[string]uint64, len(v.resigned))
	for reason, n := range v.resigned {
		all[reason] = n.Load()
	}
	return all
}

// read counts a read that took so long.
func (v *vitals) read(stale bool, took time.Duration) {
	if stale {
		v.stale.Observe(took)
	} else {
		v.linear.Observe(took)
	}
}

// kept counts a keepalive that came with so much of the ttl left.
func (v *vitals) kept(left, ttl time.Duration) {
	v.keptAlive.Observe(time.Duration(float64(left) / float64(ttl) * float64(time.Second)))
}

// opened counts an office that was opened, by how long each step took.
func (v *vitals) opened(barrier, outwaited, opening time.Duration) {
	v.barrier.Observe(barrier)
	v.outwaited.Observe(outwaited)
	v.opening.Observe(opening)
}

// renewed counts a batch that was accepted: proposed at p, accepted now, with
// what was left of the lease.
func (v *vitals) renewed(p, now time.Duration, left lease.View) {
	v.committed.Observe(now - p)
	v.margin.Observe(left.Remaining)
}

// happened counts an event.
func (v *vitals) happened(c state.Change) {
	switch c := c.(type) {
	case state.SessionEnded:
		if c.Expired {
			v.expired.Add(1)
		}
	case state.Granted:
		if c.Wait != nil {
			v.waited.Observe(time.Duration(c.Hold.GrantedAt - c.Wait.Since))
		}
	case state.Released:
		v.held.Observe(time.Duration(time.Now().UnixNano() - c.Hold.GrantedAt))
	}
}

// Vitals are the figures now.
func (m *Master) Vitals() Vitals {
	s := m.log.State()
	return Vitals{
		Location: m.Known(), Lease: m.Lease(), LeaseTerm: m.opts.LeaseTerm,
		Sessions: s.SessionCount(), Locks: s.LockCount(), Waiters: s.WaitCount(), Files: s.FileCount(), Content: s.ContentBytes(),
		Deadlocks: m.circles(),
		Resigned:  m.vitals.resignations(),
		Offices:   m.vitals.offices.Load(), Expired: m.vitals.expired.Load(),
		Committed: m.vitals.committed.Snapshot(), Margin: m.vitals.margin.Snapshot(), Waited: m.vitals.waited.Snapshot(),
		Held: m.vitals.held.Snapshot(), Queued: m.vitals.queued.Snapshot(), Replied: m.vitals.replied.Snapshot(),
		Linear: m.vitals.linear.Snapshot(), Stale: m.vitals.stale.Snapshot(), Kept: m.vitals.keptAlive.Snapshot(),
		Barrier: m.vitals.barrier.Snapshot(), Outwaited: m.vitals.outwaited.Snapshot(), Opening: m.vitals.opening.Snapshot(),
		Replica: m.members.Vitals(), Quotas: m.Quotas(),
	}
}
