package master

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/replica/state"
)

// vitals count events over all offices of this replica.
type vitals struct {
	set                         metric.Set
	offices, expired, lapses    atomic.Uint64
	resigned                    map[string]*atomic.Uint64 // by reason; its keys do not change
	committed, margin           *metric.Histogram
	waited, held                *metric.Histogram
	queued, replied             *metric.Histogram
	linear, stale               *metric.Histogram
	keptAlive                   *metric.Histogram
	barrier, outwaited, opening *metric.Histogram
}

func newVitals(term time.Duration) *vitals {
	const us, ms, s = time.Microsecond, time.Millisecond, time.Second
	v := &vitals{resigned: make(map[string]*atomic.Uint64, len(reasons))}
	for _, reason := range reasons {
		v.resigned[reason] = new(atomic.Uint64)
	}
	set := &v.set
	set.Counter("stout_offices_total", "How often this replica became master since it was started.", v.offices.Load)
	set.Counters("stout_offices_resigned_total", "How often this replica gave up mastership by itself since it was started, by reason: the step that hung, slow_disk, lease or snapshot.",
		[]string{"reason"}, func(show metric.Show) {
			for reason, n := range v.resigned {
				show(float64(n.Load()), reason)
			}
		})
	set.Counter("stout_sessions_expired_total", "Sessions that expired while this replica was the master.", v.expired.Load)
	v.committed = set.Histogram("stout_commit_duration_seconds", "Time from the proposal of an entry by this replica as master until it was applied.",
		500*us, ms, 2500*us, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 250*ms, 500*ms, s, 2500*ms, 5*s, 10*s)
	set.Counter("stout_lease_lapses_total", "How often the lease of this replica as master lapsed: it did not serve until it was renewed, or its office ended.", v.lapses.Load)
	v.margin = set.Histogram("stout_lease_renewal_margin_seconds", "Rest of the lease when it was renewed; 0 if it had lapsed.",
		0, term/10, term/5, 3*term/10, 2*term/5, term/2, 3*term/5, 7*term/10, 4*term/5, 9*term/10)
	v.waited = set.Histogram("stout_lock_wait_duration_seconds", "Time that a request waited in a lock's queue before this replica as master granted it.",
		10*ms, 100*ms, s, 10*s, time.Minute, 10*time.Minute, time.Hour, 24*time.Hour)
	v.held = set.Histogram("stout_lock_hold_duration_seconds", "Time from a lock's grant to its end, for grants that ended while this replica was the master; by the wall clock.",
		ms, 10*ms, 100*ms, s, 10*s, time.Minute, 10*time.Minute, time.Hour, 24*time.Hour, 7*24*time.Hour)
	v.queued, v.replied = set.In(metric.WriteStage, "queue"), set.In(metric.WriteStage, "reply")
	read := metric.Family{Name: "stout_read_duration_seconds", Help: "Time to read the state for a call: linear as the master with its lease, stale as any replica.", Label: "kind",
		Bounds: []time.Duration{us, 2500 * time.Nanosecond, 5 * us, 10 * us, 25 * us, 50 * us, 100 * us, 250 * us, 500 * us, ms, 5 * ms, 25 * ms, 100 * ms, 500 * ms, 2 * s}}
	v.linear, v.stale = set.In(read, "linear"), set.In(read, "stale")
	// A whole ttl is observed as one second.
	v.keptAlive = set.Histogram("stout_session_keepalive_margin_ratio", "Rest of a session's lease when this replica as master received a keepalive, as a fraction of its ttl.",
		0, s/20, s/10, s/5, 3*s/10, 2*s/5, s/2, 3*s/5, 7*s/10, 4*s/5, 9*s/10, 19*s/20)
	v.barrier, v.outwaited, v.opening = set.In(metric.FailoverStep, "barrier"), set.In(metric.FailoverStep, "wait"), set.In(metric.FailoverStep, "open")
	return v
}

// reasons are the reasons for which a master gives up its office: a step that
// hangs, and the reasons of unfit.
var reasons = []string{"disk", "apply", "raft", "propose", "answer", "mutex", "open", slowDisk, lostLease, unsentSnapshot}

// resignedFor counts an office that ended by itself.
func (v *vitals) resignedFor(reason string) {
	if n := v.resigned[reason]; n != nil {
		n.Add(1)
	}
}

// read counts a read that took so long.
func (v *vitals) read(stale bool, took time.Duration) {
	if stale {
		v.stale.Observe(took)
	} else {
		v.linear.Observe(took)
	}
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

// Metrics returns the metrics of this replica, for dashboards and alerts.
func (m *Master) Metrics() metric.Set {
	s := slices.Concat(m.vitals.set, m.members.Metrics())
	s.Gauge("stout_ready", "1 if this replica is the master with its lease, or has had recent contact with a master.", func() float64 { return metric.If(m.Ready() == nil) })
	s.Gauge("stout_has_master", "1 if this replica knows a master.", func() float64 { return metric.If(m.Known().ID != "") })
	s.Gauge("stout_is_master", "1 if this replica is the master in office.", func() float64 { return metric.If(m.Known().Self) })
	s.Gauge("stout_epoch", "The latest epoch that this replica knows.", func() float64 { return float64(m.Known().Epoch) })
	s.Gauge("stout_lease_held", "1 if this replica is the master and its lease runs.", func() float64 { return metric.If(m.Lease().Held) })
	s.Gauge("stout_lease_remaining_seconds", "Rest of this replica's lease as master; 0 without one.", func() float64 { return m.Lease().Remaining.Seconds() })
	s.Gauge("stout_lease_term_seconds", "The term of this replica's lease as master.", m.opts.LeaseTerm.Seconds)
	s.Gauge("stout_raft_last_contact_seconds", "Time since this replica had contact with a leader, or since it was started; 0 on the leader.",
		func() float64 { return float64(m.Replica().LastContactMS) / 1000 })
	s.Gauge("stout_sessions", "Open sessions in this replica's state.", func() float64 { return float64(m.log.State().SessionCount()) })
	s.Gauge("stout_locks", "Locks in this replica's state that are held, waited for or within a lock-delay.", func() float64 { return float64(m.log.State().LockCount()) })
	s.Gauge("stout_waiters", "Queue positions in this replica's state.", func() float64 { return float64(m.log.State().WaitCount()) })
	s.Gauge("stout_wait_cycles", "Cycles of sessions that wait for each other's holds in this replica's state, counted up to 100.", func() float64 { return float64(m.cycles()) })
	s.Gauge("stout_files", "Files in this replica's state.", func() float64 { return float64(m.log.State().FileCount()) })
	s.Gauge("stout_content_bytes", "Bytes of content of the files in this replica's state.", func() float64 { return float64(m.log.State().ContentBytes()) })
	quota := func(show func(metric.Show, QuotaUse)) func(metric.Show) {
		return func(to metric.Show) {
			for _, u := range m.Quotas() {
				if !u.OfPrincipal {
					show(to, u)
				}
			}
		}
	}
	s.Gauges("stout_quota_max", "The quota of this replica, which applies while it is master; 0 means no quota.", []string{"quota"},
		quota(func(show metric.Show, u QuotaUse) { show(float64(u.Max), u.Name) }))
	s.Counters("stout_quota_refused_total", "Calls that this replica refused as master because the quota was used up.", []string{"quota"},
		quota(func(show metric.Show, u QuotaUse) { show(float64(u.Refused), u.Name) }))
	s.Gauges("stout_quota_used", "Present use of a quota of the whole cell, on the master.", []string{"quota"},
		quota(func(show metric.Show, u QuotaUse) {
			if u.Known {
				show(float64(u.Used), u.Name)
			}
		}))
	s.Counters("stout_principal_quota_refused_total", "Calls that this replica refused because a quota of their principal was used up.", []string{"quota"}, func(show metric.Show) {
		for _, u := range m.Quotas() {
			if u.OfPrincipal {
				show(float64(u.Refused), u.Name)
			}
		}
	})
	return s
}
