package replica

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// An entry is counted when it was applied, and not when it cannot be.
func TestApplyingIsTimed(t *testing.T) {
	var now time.Duration
	var failed error
	f := newTestFSM(&now, &failed)
	f.took = newVitals().applying
	f.clock = func() time.Duration { now += 50 * time.Microsecond; return now }
	for _, l := range twoEntries(t) {
		f.Apply(l)
	}
	f.Apply(&raft.Log{Index: 3, Data: []byte{99}})
	if s := f.took.Snapshot(); s.Count != 2 || s.Sum != 100*time.Microsecond {
		t.Errorf("%+v", s)
	}
}

func TestElectionsAreCounted(t *testing.T) {
	v := newVitals()
	for _, data := range []any{
		raft.Candidate, raft.Leader, raft.LeaderObservation{LeaderID: "r1"}, raft.Follower, raft.LeaderObservation{},
		raft.Candidate, raft.Follower, raft.LeaderObservation{LeaderID: "r2"}, raft.FailedHeartbeatObservation{},
	} {
		v.noticed(data)
	}
	if e, l := v.elections.Load(), v.leaders.Load(); e != 2 || l != 2 {
		t.Errorf("%d elections, %d leaders", e, l)
	}
}

// A replica that runs tells all of its figures.
func TestVitalsOfAReplica(t *testing.T) {
	t.Parallel()
	r := start(t, options(t, 1)[0])
	_, epoch := lead(t, r)
	write(t, r, epoch, "s", 20)
	v := r.Vitals()
	if v.Term == 0 || v.Last < 22 || v.Committed < 22 || v.Applied < 22 || v.Last > 100 || v.Stored.Count < 20 || v.Applying.Count < 21 {
		t.Errorf("%+v", v)
	}
	until(t, "the election is counted", func() bool { v := r.Vitals(); return v.Elections == 1 && v.Leaders == 1 })
}
