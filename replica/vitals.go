package replica

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/histogram"
	"github.com/stoutlock/stout/replica/membership"
)

// vitals are counted where they arise.
type vitals struct {
	elections, leaders atomic.Uint64
	stored             *histogram.Histogram // time to write entries to the log, synced
	applying           *histogram.Histogram // time to apply an entry
	// Stages of a write that this replica proposed itself: until its entry was on
	// the disk here, from then until it was committed, and until it was applied.
	disk, followers, applied *histogram.Histogram
	detected, elected        *histogram.Histogram // steps of a fail-over to this replica

	heard, campaigns time.Time // see noticed, whose goroutine has them alone
}

func newVitals() vitals {
	const us, ms = time.Microsecond, time.Millisecond
	return vitals{
		stored: histogram.New(100*us, 250*us, 500*us, ms, 2500*us, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 250*ms, 500*ms,
			time.Second, 2500*ms, 5*time.Second, 10*time.Second),
		applying: histogram.New(10*us, 25*us, 50*us, 100*us, 250*us, 500*us, ms, 2500*us, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 250*ms),
		disk:     histogram.New(histogram.Stages...), followers: histogram.New(histogram.Stages...), applied: histogram.New(histogram.Stages...),
		detected: histogram.New(histogram.Steps...), elected: histogram.New(histogram.Steps...),
	}
}

// noticed counts what the library tells of now; own is this replica's id there,
// and heard when it last heard of a leader. What campaigns come to is counted
// once, from the first one after it had heard of another leader.
func (v *vitals) noticed(data any, own raft.ServerID, heard, now time.Time) {
	switch d := data.(type) {
	case raft.RaftState:
		switch {
		case d == raft.Candidate:
			v.elections.Add(1)
			if v.campaigns.IsZero() {
				v.heard, v.campaigns = heard, now
			}
		case d == raft.Leader && !v.campaigns.IsZero():
			if !v.heard.IsZero() {
				v.detected.Observe(v.campaigns.Sub(v.heard))
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

// Vitals are the figures of this replica now.
func (r *Replica) Vitals() membership.Vitals {
	return membership.Vitals{
		Term: r.raft.CurrentTerm(), Last: r.raft.LastIndex(), Committed: r.raft.CommitIndex(), Applied: r.raft.AppliedIndex(),
		Elections: r.vitals.elections.Load(), Leaders: r.vitals.leaders.Load(),
		Stored: r.vitals.stored.Snapshot(), Applying: r.vitals.applying.Snapshot(),
		Disk: r.vitals.disk.Snapshot(), Followers: r.vitals.followers.Snapshot(), OwnApplied: r.vitals.applied.Snapshot(),
		Detected: r.vitals.detected.Snapshot(), Elected: r.vitals.elected.Snapshot(),
		Snapshots: r.snapshots.vitals(),
	}
}
