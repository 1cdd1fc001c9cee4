package replica

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/histogram"
	"github.com/stoutlock/stout/replica/cell"
)

// vitals are counted where they arise.
type vitals struct {
	elections, leaders atomic.Uint64
	stored             *histogram.Histogram // time to write entries to the log, synced
	applying           *histogram.Histogram // time to apply an entry
}

func newVitals() vitals {
	const us, ms = time.Microsecond, time.Millisecond
	return vitals{
		stored: histogram.New(100*us, 250*us, 500*us, ms, 2500*us, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 250*ms, 500*ms,
			time.Second, 2500*ms, 5*time.Second, 10*time.Second),
		applying: histogram.New(10*us, 25*us, 50*us, 100*us, 250*us, 500*us, ms, 2500*us, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 250*ms),
	}
}

// noticed counts what the library tells of.
func (v *vitals) noticed(data any) {
	switch d := data.(type) {
	case raft.RaftState:
		if d == raft.Candidate {
			v.elections.Add(1)
		}
	case raft.LeaderObservation:
		if d.LeaderID != "" {
			v.leaders.Add(1)
		}
	}
}

// Vitals are the figures of this replica now.
func (r *Replica) Vitals() cell.Vitals {
	return cell.Vitals{
		Term: r.raft.CurrentTerm(), Last: r.raft.LastIndex(), Committed: r.raft.CommitIndex(), Applied: r.raft.AppliedIndex(),
		Elections: r.vitals.elections.Load(), Leaders: r.vitals.leaders.Load(),
		Stored: r.vitals.stored.Snapshot(), Applying: r.vitals.applying.Snapshot(),
	}
}
