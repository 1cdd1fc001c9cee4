package rafttransport

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/raftstore"
)

// installing is a transport that was sent a snapshot, in front of a library
// that the test plays.
type installing struct {
	Transport
	wire   received
	q      *raft.InstallSnapshotRequest
	answer chan raft.RPCResponse
}

func sendSnapshot(t *testing.T, content io.Reader) installing { return sendTo(t, Options{}, content) }

func sendTo(t *testing.T, o Options, content io.Reader) installing {
	wire, quit := received{messages: make(chan raft.RPC)}, make(chan struct{})
	o.Committed = func(uint64, uint64, bool) {}
	to := New(wire, o)
	go to.Pass("r1/a", func() []raft.Server { return nil }, quit)
	t.Cleanup(func() { close(quit) })
	q := &raft.InstallSnapshotRequest{
		RPCHeader: raft.RPCHeader{ID: []byte("r2/b"), Addr: []byte("r2")}, Term: 9, LastLogIndex: 432, LastLogTerm: 8,
	}
	s := installing{to, wire, q, make(chan raft.RPCResponse, 1)}
	wire.messages <- raft.RPC{Command: q, Reader: content, RespChan: s.answer}
	return s
}

// entries returns the next message to the library. It must come from the leader
// that sent the snapshot, and commit nothing.
func (s installing) entries(t *testing.T) (raft.RPC, *raft.AppendEntriesRequest) {
	t.Helper()
	m := <-s.Consumer()
	e, _ := m.Command.(*raft.AppendEntriesRequest)
	if e == nil || e.Term != 9 || string(e.ID) != "r2/b" || string(e.Addr) != "r2" || e.LeaderCommitIndex != 0 {
		t.Fatalf("the library is handed %+v", m.Command)
	}
	return m, e
}

// asked answers the question whether the library has the snapshot's end.
func (s installing) asked(t *testing.T, has bool) {
	t.Helper()
	m, e := s.entries(t)
	if e.PrevLogEntry != 432 || e.PrevLogTerm != 8 || len(e.Entries) != 0 {
		t.Errorf("the library is asked %+v", e)
	}
	m.Respond(&raft.AppendEntriesResponse{Term: 9, Success: has}, nil)
}

// TestSnapshotIsFollowedByItsEnd: the library is made to discard what disagrees
// with a snapshot once it is installed, and before the leader gets the answer.
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
			content := strings.NewReader("state")
			s := sendSnapshot(t, content)
			s.asked(t, false)
			m := <-s.Consumer()
			if m.Command != s.q || m.Reader != content {
				t.Errorf("the library is handed %+v", m)
			}
			m.Respond(&raft.InstallSnapshotResponse{Term: 9, Success: c.success}, c.err)
			if c.success {
				m, e := s.entries(t)
				if e.PrevLogEntry != 0 || len(e.Entries) != 1 || e.Entries[0].Index != 432 || e.Entries[0].Term != 8 || e.Entries[0].Type != raftstore.StandIn {
					t.Errorf("it is handed %+v then", e)
				}
				if len(s.answer) != 0 {
					t.Error("the leader is told before")
				}
				m.Respond(&raft.AppendEntriesResponse{Term: 9, Success: true}, nil)
			}
			a := <-s.answer
			if r, _ := a.Response.(*raft.InstallSnapshotResponse); r == nil || r.Success != c.success || !errors.Is(a.Error, c.err) {
				t.Errorf("the leader is told %+v", a)
			}
		})
	}
}

// TestSnapshotForACandidate: a library that was made to campaign, and so may end the
// term before it has discarded its log, gets no snapshot.
func TestSnapshotForACandidate(t *testing.T) {
	content := strings.NewReader("state")
	s := sendTo(t, Options{IsStuckCandidate: func() (uint64, bool) { return 9, true }}, content)
	s.asked(t, false)
	select {
	case a := <-s.answer:
		if !errors.Is(a.Error, ErrCampaigns) || content.Len() != 0 {
			t.Errorf("the answer is %+v, with %d bytes left", a, content.Len())
		}
	case m := <-s.Consumer():
		t.Errorf("the library is handed %+v", m.Command)
	}
}

// TestLogThatIsNotDiscarded: if the term has ended since the snapshot was installed,
// the replica ends, and the leader gets no answer. If the log is kept because of
// committed entries, the replica goes on.
func TestLogThatIsNotDiscarded(t *testing.T) {
	for _, lost := range []error{nil, raftstore.ErrLostChanges} {
		failed, kept := make(chan error, 1), make(chan error, 1)
		kept <- nil // while the snapshot arrives
		s := sendTo(t, Options{
			Fail: func(err error) { failed <- err },
			Refuse: func() error {
				select {
				case err := <-kept:
					return err
				default:
					return lost
				}
			},
		}, strings.NewReader("state"))
		s.asked(t, false)
		m := <-s.Consumer()
		m.Respond(&raft.InstallSnapshotResponse{Term: 9, Success: true}, nil)
		m, _ = s.entries(t)
		m.Respond(&raft.AppendEntriesResponse{Term: 10}, nil)
		select {
		case err := <-failed:
			if lost != nil || len(s.answer) != 0 {
				t.Errorf("with %v it ends: %v; answers: %d", lost, err, len(s.answer))
			}
		case a := <-s.answer:
			if lost == nil {
				t.Errorf("the leader is told %+v", a)
			}
		}
	}
}

// TestSnapshotThatIsThere: the snapshot is read to its end, so that the next
// message is found, and answered like an installed one. The library does not
// get it.
func TestSnapshotThatIsThere(t *testing.T) {
	content := strings.NewReader("state")
	s := sendSnapshot(t, content)
	s.asked(t, true)
	a := <-s.answer
	if r, _ := a.Response.(*raft.InstallSnapshotResponse); r == nil || !r.Success || r.Term != 9 || a.Error != nil || content.Len() != 0 {
		t.Errorf("the answer is %+v, with %d bytes left", a, content.Len())
	}
}

// TestSnapshotThatDoesNotComeToItsEnd: it delays no later message, because its
// sender may have given it up.
func TestSnapshotThatDoesNotComeToItsEnd(t *testing.T) {
	content, sender := io.Pipe()
	s := sendSnapshot(t, content)
	s.asked(t, true)
	next := &raft.AppendEntriesRequest{Term: 9}
	s.wire.messages <- raft.RPC{Command: next}
	if m := <-s.Consumer(); m.Command != next || len(s.answer) != 0 {
		t.Errorf("the library is handed %+v; the snapshot is answered: %v", m.Command, len(s.answer) != 0)
	}
	must(t, sender.Close())
	<-s.answer
}
