package replica

import (
	"testing"

	"github.com/hashicorp/raft"
)

// TestMessagesCommitWhatTheyBring: a follower that takes the end of its own log for
// the last entry of a message must not be told of more than that message vouches
// for.
func TestMessagesCommitWhatTheyBring(t *testing.T) {
	for _, c := range []struct {
		name       string
		prev       uint64
		entries    int
		says, want uint64
	}{
		{"a heartbeat", 0, 0, 0, 0},
		{"nothing new, and more is committed", 7, 0, 9, 7},
		{"nothing new, and less is committed", 7, 0, 5, 5},
		{"entries, and all of them are committed", 7, 2, 9, 9},
		{"entries, and some of them are committed", 7, 3, 8, 8},
		{"entries cut short", 7, 16, 40, 23},
		{"from the beginning of the log", 0, 3, 5, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := raft.AppendEntriesRequest{PrevLogEntry: c.prev, LeaderCommitIndex: c.says}
			for i := range c.entries {
				q.Entries = append(q.Entries, &raft.Log{Index: c.prev + 1 + uint64(i)})
			}
			bound(&q)
			if q.LeaderCommitIndex != c.want {
				t.Errorf("it says that %d are committed; want %d", q.LeaderCommitIndex, c.want)
			}
		})
	}
}

// TestBothWaysAreBounded: entries leave one by one and through a pipeline.
func TestBothWaysAreBounded(t *testing.T) {
	awake := func() error { return nil }
	one, other := &raft.AppendEntriesRequest{PrevLogEntry: 3, LeaderCommitIndex: 9}, &raft.AppendEntriesRequest{PrevLogEntry: 4, LeaderCommitIndex: 9}
	if err := (transport{sent{}, awake}).AppendEntries("r2", "r2", one, nil); err != nil || one.LeaderCommitIndex != 3 {
		t.Error(one.LeaderCommitIndex, err)
	}
	p, err := (transport{sent{}, awake}).AppendEntriesPipeline("r2", "r2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.AppendEntries(other, nil); err != nil || other.LeaderCommitIndex != 4 {
		t.Error(other.LeaderCommitIndex, err)
	}
}

// sent is a transport that takes every message and does nothing with it.
type sent struct{ Transport }

func (sent) AppendEntries(raft.ServerID, raft.ServerAddress, *raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error {
	return nil
}

func (sent) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return sentOn{}, nil
}

type sentOn struct{ raft.AppendPipeline }

func (sentOn) AppendEntries(*raft.AppendEntriesRequest, *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	return nil, nil
}
