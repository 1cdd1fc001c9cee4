package rafttransport

import (
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
)

// library starts the library with a log in memory, connected only to the test.
// Its first election lasts as long as the test wants.
func library(t *testing.T, to raft.Transport) *raft.Raft {
	t.Helper()
	c := raft.DefaultConfig()
	c.LocalID, c.LogLevel = "r1", "OFF"
	store, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	members := raft.Configuration{Servers: []raft.Server{{ID: "r1", Address: "r1"}, {ID: "r2", Address: "r2"}, {ID: "r3", Address: "r3"}}}
	if err := raft.BootstrapCluster(c, store, store, snapshots, to, members); err != nil {
		t.Fatal(err)
	}
	r, err := raft.NewRaft(c, &raft.MockFSM{}, store, store, snapshots, to)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// alone is a wire on which the test sends messages to one library, which
// reaches no others.
type alone struct {
	*raft.InmemTransport
	messages chan raft.RPC
}

func (a alone) Consumer() <-chan raft.RPC { return a.messages }

// TestCandidateWithALostLeaderVotes: a candidate is asked to campaign, receives
// one message from the winner of that term, and then none. It does not refuse
// its vote for ever.
func TestCandidateWithALostLeaderVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, inmem := raft.NewInmemTransport("r1")
		wire, quit := alone{inmem, make(chan raft.RPC)}, make(chan struct{})
		var r *raft.Raft
		to := New(wire, Options{Committed: func(uint64, uint64, bool) {}, IsStuckCandidate: func() (uint64, bool) {
			at, _ := r.LeaderWithID()
			return r.CurrentTerm(), r.State() == raft.Candidate && at != ""
		}})
		r = library(t, to)
		servers := func() []raft.Server { return r.GetConfiguration().Configuration().Servers }
		go to.Pass("r1", servers, quit)
		defer func() {
			close(quit)
			if err := r.Shutdown().Error(); err != nil {
				t.Error(err)
			}
		}()
		tell := func(command any) raft.RPCResponse {
			answer := make(chan raft.RPCResponse, 1)
			wire.messages <- raft.RPC{Command: command, RespChan: answer}
			return <-answer
		}
		from := func(id string) raft.RPCHeader {
			return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte(id)}
		}
		tell(&raft.TimeoutNowRequest{RPCHeader: from("r3")})
		synctest.Wait() // it campaigns in a term of its own
		term := r.CurrentTerm()
		tell(&raft.AppendEntriesRequest{RPCHeader: from("r2"), Term: term, PrevLogEntry: 100, PrevLogTerm: term})
		if at, _ := r.LeaderWithID(); r.State() != raft.Candidate || at != "r2" {
			t.Fatalf("it is a %v that follows %q: the library is not as it was", r.State(), at)
		}
		a := tell(&raft.RequestPreVoteRequest{RPCHeader: from("r3"), Term: term + 1, LastLogIndex: 100, LastLogTerm: term})
		if got, ok := a.Response.(*raft.RequestPreVoteResponse); !ok || !got.Granted {
			t.Errorf("who has more in his log is answered %+v, %v", a.Response, a.Error)
		}
	})
}
