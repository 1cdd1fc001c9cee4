package replica

import (
	"testing"

	"github.com/hashicorp/raft"
)

// campaign is a candidate of term 7 that wins after a given number of calls.
type campaign struct{ wins int }

func (c *campaign) won() bool {
	c.wins--
	return c.wins < 0
}

func (c *campaign) CurrentTerm() uint64 { c.won(); return 7 }

func (c *campaign) State() raft.RaftState {
	if c.won() {
		return raft.Leader
	}
	return raft.Candidate
}

func (c *campaign) LeaderWithID() (raft.ServerAddress, raft.ServerID) {
	if c.won() {
		return "a1", "r1"
	}
	return "", ""
}

// stuckCandidate is a candidate that follows another replica.
type stuckCandidate struct{ campaign }

func (stuckCandidate) LeaderWithID() (raft.ServerAddress, raft.ServerID) { return "a2", "r2" }

// TestWhoWinsDoesNotCling: a candidate that wins during the check does not
// cling to a leader; otherwise it would be made to step down.
func TestWhoWinsDoesNotCling(t *testing.T) {
	t.Parallel()
	for wins := range 5 {
		if _, clings := follows(&campaign{wins}, "r1"); clings {
			t.Errorf("one that wins after %d questions is taken for one that follows itself", wins)
		}
	}
	if term, clings := follows(&stuckCandidate{campaign{9}}, "r1"); !clings || term != 7 {
		t.Errorf("one that follows another: term %d, %v", term, clings)
	}
}
