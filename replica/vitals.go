package replica

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/metric"
)

// vitals are the replica's counters and histograms, updated where the values
// arise.
type vitals struct {
	set                metric.Set
	elections, leaders atomic.Uint64
	stored, applying   *metric.Histogram
	// Stages of a write that this replica proposed itself: until its entry was
	// on the disk here, then until it was committed, then until it was applied.
	disk, followers, applied *metric.Histogram
	// Steps of a fail-over to this replica: from the last message of a leader
	// to its campaign, then to its election.
	detected, elected *metric.Histogram

	contact, campaigns time.Time // only the goroutine of noticed uses them
}

func newVitals() *vitals {
	const us, ms = time.Microsecond, time.Millisecond
	v := new(vitals)
	v.set.Counter("stout_raft_elections_total", "Elections that this replica has started since it was started.", v.elections.Load)
	v.set.Counter("stout_raft_leader_changes_total", "Changes of leader that this replica has seen since it was started.", v.leaders.Load)
	v.stored = v.set.Histogram("stout_disk_sync_duration_seconds", "Time to write entries to this replica's log and sync them.",
		100*us, 250*us, 500*us, ms, 2500*us, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 250*ms, 500*ms, time.Second, 2500*ms, 5*time.Second, 10*time.Second)
	v.applying = v.set.Histogram("stout_raft_apply_duration_seconds", "Time to apply an entry to this replica's state.",
		10*us, 25*us, 50*us, 100*us, 250*us, 500*us, ms, 2500*us, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 250*ms)
	v.disk, v.followers, v.applied = v.set.In(metric.WriteStage, "disk"), v.set.In(metric.WriteStage, "followers"), v.set.In(metric.WriteStage, "apply")
	v.detected, v.elected = v.set.In(metric.FailoverStep, "detect"), v.set.In(metric.FailoverStep, "elect")
	return v
}

// noticed counts the library's observations. own is this replica's id in the
// library, and contact the time of its last contact with a leader. A series of
// campaigns counts once, from the first one after contact with another leader.
func (v *vitals) noticed(data any, own raft.ServerID, contact, now time.Time) {
	switch d := data.(type) {
	case raft.RaftState:
		switch {
		case d == raft.Candidate:
			v.elections.Add(1)
			if v.campaigns.IsZero() {
				v.contact, v.campaigns = contact, now
			}
		case d == raft.Leader && !v.campaigns.IsZero():
			if !v.contact.IsZero() {
				v.detected.Observe(v.campaigns.Sub(v.contact))
			}
			v.elected.Observe(now.Sub(v.campaigns))
			v.campaigns = time.Time{}
		}
	case raft.LeaderObservation:
		if d.LeaderID == "" {
			return
		}
		v.leaders.Add(1)
		if d.LeaderID != own {
			v.campaigns = time.Time{}
		}
	}
}

// Metrics returns the metrics of this replica's log and of Raft.
func (r *Replica) Metrics() metric.Set {
	s := slices.Concat(r.vitals.set, r.snapshots.set)
	s.Gauge("stout_raft_term", "Raft's current term at this replica.", func() float64 { return float64(r.raft.CurrentTerm()) })
	s.Gauge("stout_raft_last_index", "Index of the last entry of this replica's log.", func() float64 { return float64(r.raft.LastIndex()) })
	s.Gauge("stout_raft_commit_index", "Highest index that this replica knows to be committed.", func() float64 { return float64(r.raft.CommitIndex()) })
	s.Gauge("stout_raft_applied_index", "Index of the last entry that this replica has applied.", func() float64 { return float64(r.raft.AppliedIndex()) })
	return s
}
