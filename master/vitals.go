package master

import (
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/internal/histogram"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/cell"
	"github.com/stoutlock/stout/replica/deadlock"
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
	// most lockapi.MaxDeadlocks.
	Deadlocks int
	// Offices is how often this replica took office since it was started, and
	// Expired how many sessions expired while it was in office.
	Offices, Expired uint64
	Committed        histogram.Snapshot // from the proposal of a batch to its outcome
	Margin           histogram.Snapshot // what was left of the lease when it was renewed
	Waited           histogram.Snapshot // time in a queue, of those who got the lock
	Replica          cell.Vitals
}

// vitals are counted where they arise, over all offices of this replica.
type vitals struct {
	offices, expired          atomic.Uint64
	committed, margin, waited *histogram.Histogram
}

func newVitals(term time.Duration) *vitals {
	const ms, s = time.Millisecond, time.Second
	return &vitals{
		committed: histogram.New(500*time.Microsecond, ms, 2500*time.Microsecond, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 250*ms, 500*ms, s, 2500*ms, 5*s, 10*s),
		margin:    histogram.New(0, term/10, term/5, 3*term/10, 2*term/5, term/2, 3*term/5, 7*term/10, 4*term/5, 9*term/10),
		waited:    histogram.New(10*ms, 100*ms, s, 10*s, time.Minute, 10*time.Minute, time.Hour, 24*time.Hour),
	}
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
	}
}

// Vitals are the figures now.
func (m *Master) Vitals() Vitals {
	s := m.log.State()
	return Vitals{
		Location: m.Known(), Lease: m.Lease(), LeaseTerm: m.opts.LeaseTerm,
		Sessions: s.SessionCount(), Locks: s.LockCount(), Waiters: s.WaitCount(), Files: s.FileCount(), Content: s.ContentBytes(),
		Deadlocks: len(deadlock.Find(s, lockapi.MaxDeadlocks)),
		Offices:   m.vitals.offices.Load(), Expired: m.vitals.expired.Load(),
		Committed: m.vitals.committed.Snapshot(), Margin: m.vitals.margin.Snapshot(), Waited: m.vitals.waited.Snapshot(),
		Replica: m.members.Vitals(),
	}
}
