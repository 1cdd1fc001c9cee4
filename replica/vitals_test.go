package replica

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/metric"
)

// An entry is counted when it was applied, and not if it cannot be applied.
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

// The steps of a fail-over count from the last message of a leader to the first
// campaign, and from there to the election, including failed campaigns.
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

// A running replica has all of its metrics.
func TestVitalsOfAReplica(t *testing.T) {
	t.Parallel()
	r := start(t, options(t, 1)[0])
	_, epoch := lead(t, r)
	write(t, r, epoch, "s", 20)
	value := func(name string) float64 { return r.Metrics().Value(name) }
	for name, least := range map[string]float64{"stout_raft_term": 1, "stout_raft_last_index": 22, "stout_raft_commit_index": 22, "stout_raft_applied_index": 22} {
		if v := value(name); v < least || v > 100 {
			t.Errorf("%s %v", name, v)
		}
	}
	count := func(h *metric.Histogram) uint64 { return h.Snapshot().Count }
	v := r.vitals
	if count(v.stored) < 20 || count(v.applying) < 21 {
		t.Errorf("%+v, %+v", v.stored.Snapshot(), v.applying.Snapshot())
	}
	if disk, followers := v.disk.Snapshot(), v.followers.Snapshot(); disk.Count < 21 || followers.Count < 21 || count(v.applied) != followers.Count || disk.Sum < followers.Sum {
		t.Errorf("stages of its own entries, alone in its cell: %+v, %+v, %d", disk, followers, count(v.applied))
	}
	until(t, "the election is counted", func() bool {
		return value("stout_raft_elections_total") == 1 && value("stout_raft_leader_changes_total") == 1
	})
}
