package replica

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// An entry is counted when it was applied, and not when it cannot be.
func TestApplyingIsTimed(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	v := newVitals()
	now := time.Now()
	for _, data := range []any{
		raft.Candidate, raft.Leader, raft.LeaderObservation{LeaderID: "r1"}, raft.Follower, raft.LeaderObservation{},
		raft.Candidate, raft.Follower, raft.LeaderObservation{LeaderID: "r2"}, raft.FailedHeartbeatObservation{},
	} {
		v.noticed(data, "r1", time.Time{}, now)
	}
	if e, l := v.elections.Load(), v.leaders.Load(); e != 2 || l != 2 {
		t.Errorf("%d elections, %d leaders", e, l)
	}
}

// The steps of a fail-over count from the last word of a leader to the first
// campaign, and from there to the election, whatever campaigns failed between.
func TestStepsOfAnElection(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	type notice struct {
		at   time.Duration
		data any
	}
	for name, c := range map[string]struct {
		heard            time.Time
		notices          []notice
		detected, elects []time.Duration
	}{
		"at once": {start, []notice{{time.Second, raft.Candidate}, {1200 * time.Millisecond, raft.Leader}, {1200 * time.Millisecond, raft.LeaderObservation{LeaderID: "r1"}}},
			[]time.Duration{time.Second}, []time.Duration{200 * time.Millisecond}},
		"at the second attempt": {start, []notice{{time.Second, raft.Candidate}, {2 * time.Second, raft.Follower}, {3 * time.Second, raft.Candidate}, {4 * time.Second, raft.Leader}},
			[]time.Duration{time.Second}, []time.Duration{3 * time.Second}},
		"never heard of one": {time.Time{}, []notice{{time.Second, raft.Candidate}, {2 * time.Second, raft.Leader}}, nil, []time.Duration{time.Second}},
		"another one wins":   {start, []notice{{time.Second, raft.Candidate}, {2 * time.Second, raft.LeaderObservation{LeaderID: "r2"}}}, nil, nil},
		"another one wins first": {start, []notice{{time.Second, raft.Candidate}, {2 * time.Second, raft.LeaderObservation{LeaderID: "r2"}},
			{5 * time.Second, raft.Candidate}, {6 * time.Second, raft.Leader}}, []time.Duration{5 * time.Second}, []time.Duration{time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVitals()
			for _, n := range c.notices {
				v.noticed(n.data, "r1", c.heard, start.Add(n.at))
			}
			total := func(all []time.Duration) (sum time.Duration) {
				for _, d := range all {
					sum += d
				}
				return sum
			}
			if s := v.detected.Snapshot(); int(s.Count) != len(c.detected) || s.Sum != total(c.detected) {
				t.Errorf("detected: %+v", s)
			}
			if s := v.elected.Snapshot(); int(s.Count) != len(c.elects) || s.Sum != total(c.elects) {
				t.Errorf("elected: %+v", s)
			}
		})
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
	if v.Disk.Count < 21 || v.Followers.Count < 21 || v.OwnApplied.Count != v.Followers.Count || v.Disk.Sum < v.Followers.Sum {
		t.Errorf("stages of its own entries, alone in its cell: %+v, %+v, %+v", v.Disk, v.Followers, v.OwnApplied)
	}
	until(t, "the election is counted", func() bool { v := r.Vitals(); return v.Elections == 1 && v.Leaders == 1 })
}
