package rafttransport

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/raftstore"
)

// TestSnapshotIsFollowedByItsEnd: the library is told to discard what disagrees
// with a snapshot once it is installed, and before the leader hears of it.
func TestSnapshotIsFollowedByItsEnd(t *testing.T) {
	for _, c := range []struct {
		name    string
		success bool
		err     error
	}{
		{name: "installed", success: true},
		{name: "of an earlier term"},
		{name: "refused", err: errors.New("no")},
	} {
		t.Run(c.name, func(t *testing.T) {
			wire, quit := received{messages: make(chan raft.RPC)}, make(chan struct{})
			to := New(wire, Options{Heard: func(uint64) {}})
			go to.Pass("r1/a", func() []raft.Server { return nil }, quit)
			defer close(quit)
			q := &raft.InstallSnapshotRequest{
				RPCHeader: raft.RPCHeader{ID: []byte("r2/b"), Addr: []byte("r2")}, Term: 9, LastLogIndex: 432, LastLogTerm: 8,
			}
			content, answer := strings.NewReader("state"), make(chan raft.RPCResponse, 1)
			wire.messages <- raft.RPC{Command: q, Reader: content, RespChan: answer}

			m := <-to.Consumer()
			if m.Command != q || m.Reader != content {
				t.Errorf("the library is handed %+v", m)
			}
			m.Respond(&raft.InstallSnapshotResponse{Term: 9, Success: c.success}, c.err)
			if c.success {
				m = <-to.Consumer()
				e, _ := m.Command.(*raft.AppendEntriesRequest)
				if e == nil || e.Term != 9 || string(e.ID) != "r2/b" || string(e.Addr) != "r2" || e.PrevLogEntry != 0 || e.LeaderCommitIndex != 0 ||
					len(e.Entries) != 1 || e.Entries[0].Index != 432 || e.Entries[0].Term != 8 || e.Entries[0].Type != raftstore.StandIn {
					t.Errorf("it is handed %+v then", m.Command)
				}
				if len(answer) != 0 {
					t.Error("the leader is told before")
				}
				m.Respond(&raft.AppendEntriesResponse{Term: 9, Success: true}, nil)
			}
			a := <-answer
			if r, _ := a.Response.(*raft.InstallSnapshotResponse); r == nil || r.Success != c.success || !errors.Is(a.Error, c.err) {
				t.Errorf("the leader is told %+v", a)
			}
		})
	}
}
