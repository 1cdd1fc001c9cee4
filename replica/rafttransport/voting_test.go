package rafttransport

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// received is a wire on which messages arrive.
type received struct {
	Wire
	messages chan raft.RPC
}

func (w received) Consumer() <-chan raft.RPC { return w.messages }

// TestVoteIsLookedForBehindEarlierMessages: a replica is asked to campaign
// while it still stores the entry that removes its vote. It does not campaign.
// The library has the new configuration only when it has handled that message.
func TestVoteIsLookedForBehindEarlierMessages(t *testing.T) {
	for name, after := range map[string]raft.ServerSuffrage{"it keeps its vote": raft.Voter, "it loses its vote": raft.Nonvoter} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var suffrage atomic.Int32 // as the library knows it
				wire, quit := received{messages: make(chan raft.RPC)}, make(chan struct{})
				to := New(wire, Options{Committed: func(uint64, uint64, bool) {}})
				go to.Pass("r1/a", func() []raft.Server {
					return []raft.Server{{ID: "r1/a", Suffrage: raft.ServerSuffrage(suffrage.Load())}}
				}, quit)
				defer close(quit)
				go func() { // the library, which takes a second to store an entry
					for {
						select {
						case m := <-to.Consumer():
							if _, entry := m.Command.(*raft.AppendEntriesRequest); entry {
								time.Sleep(time.Second)
								suffrage.Store(int32(after))
							}
							m.Respond(nil, nil)
						case <-quit:
							return
						}
					}
				}()
				tell := func(command any) <-chan raft.RPCResponse {
					answer := make(chan raft.RPCResponse, 1)
					wire.messages <- raft.RPC{Command: command, RespChan: answer}
					return answer
				}
				entry, campaign := tell(&raft.AppendEntriesRequest{}), tell(&raft.TimeoutNowRequest{})
				<-entry
				if got, want := (<-campaign).Error, after == raft.Nonvoter; errors.Is(got, ErrNoVote) != want {
					t.Errorf("it is told to campaign, and answers %v", got)
				}
			})
		})
	}
}

// TestFullMessagesAreNoLastWord: the leader may have published more than the
// entries of a message. Such a message is full, or marked by its leader.
func TestFullMessagesAreNoLastWord(t *testing.T) {
	leader := []byte("r2")
	for _, c := range []struct {
		entries int
		leader  []byte
		want    bool
	}{{0, leader, true}, {MaxAppendEntries - 1, leader, true}, {MaxAppendEntries, leader, false}, {0, nil, false}, {MaxAppendEntries - 1, nil, false}} {
		synctest.Test(t, func(t *testing.T) {
			wire, quit, heard := received{messages: make(chan raft.RPC)}, make(chan struct{}), make(chan bool, 1)
			defer close(quit)
			to := New(wire, Options{Committed: func(term, index uint64, last bool) {
				if term != 7 || index != 5 {
					t.Errorf("entry %d of term %d is heard", index, term)
				}
				heard <- last
			}})
			go to.Pass("r1/a", nil, quit)
			q := &raft.AppendEntriesRequest{Term: 7, LeaderCommitIndex: 5, Entries: make([]*raft.Log, c.entries)}
			*markOf(q) = c.leader
			wire.messages <- raft.RPC{Command: q}
			if last := <-heard; last != c.want {
				t.Errorf("a message of %q with %d entries is the last word: %v", c.leader, c.entries, last)
			}
		})
	}
}
