package rafttransport

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// wired has a message leave of each kind, and messages arrive.
type wired struct {
	sent
	left     *int
	messages chan raft.RPC
}

func (w wired) AppendEntries(raft.ServerID, raft.ServerAddress, *raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error {
	*w.left++
	return nil
}

func (w wired) RequestVote(raft.ServerID, raft.ServerAddress, *raft.RequestVoteRequest, *raft.RequestVoteResponse) error {
	*w.left++
	return nil
}

func (w wired) RequestPreVote(raft.ServerID, raft.ServerAddress, *raft.RequestPreVoteRequest, *raft.RequestPreVoteResponse) error {
	*w.left++
	return nil
}

func (w wired) TimeoutNow(raft.ServerID, raft.ServerAddress, *raft.TimeoutNowRequest, *raft.TimeoutNowResponse) error {
	*w.left++
	return nil
}

func (w wired) Consumer() <-chan raft.RPC { return w.messages }

// TestSilence: while a replica is silent no message of any kind leaves it, and what
// arrives is refused and gets to nobody; then all is as before.
func TestSilence(t *testing.T) {
	left, silent := 0, errors.New("silent")
	test := sending()
	test.Wire = wired{left: &left, messages: make(chan raft.RPC)}
	test.messages = make(chan raft.RPC)
	test.opts.Heard = func(uint64, uint64, bool) {}
	var why error
	asked := make(chan error) // the answer of whoever says whether it is silent
	test.opts.Silent = func() error { return why }
	p, err := test.AppendEntriesPipeline("r2", "r2")
	must(t, err)
	kinds := map[string]func() error{
		"entries": func() error {
			return test.AppendEntries("r2", "r2", &raft.AppendEntriesRequest{}, &raft.AppendEntriesResponse{})
		},
		"entries by a pipeline": func() error { _, err := p.AppendEntries(&raft.AppendEntriesRequest{}, nil); return err },
		"a snapshot": func() error {
			return test.InstallSnapshot("r2", "r2", &raft.InstallSnapshotRequest{}, &raft.InstallSnapshotResponse{}, nil)
		},
		"a vote":      func() error { return test.RequestVote("r2", "r2", nil, nil) },
		"a pre-vote":  func() error { return test.RequestPreVote("r2", "r2", nil, nil) },
		"a hand-over": func() error { return test.TimeoutNow("r2", "r2", nil, nil) },
	}
	why = silent
	for kind, send := range kinds {
		if err := send(); !errors.Is(err, silent) || left != 0 {
			t.Errorf("%s: %v, %d messages left", kind, err, left)
		}
	}
	why = nil
	delete(kinds, "a snapshot") // which this wire does not take
	for kind, send := range kinds {
		if err := send(); err != nil {
			t.Errorf("%s, when it is over: %v", kind, err)
		}
	}

	test.opts.Silent = func() error { return <-asked }
	quit := make(chan struct{})
	defer close(quit)
	go test.Pass("r1", func() []raft.Server { return nil }, quit)
	rest := strings.NewReader("a snapshot")
	for i, m := range []raft.RPC{{Command: &raft.AppendEntriesRequest{}}, {Command: &raft.InstallSnapshotRequest{}, Reader: rest}} {
		answer := make(chan raft.RPCResponse, 1)
		m.RespChan = answer
		test.Wire.(wired).messages <- m
		asked <- silent
		if got := <-answer; !errors.Is(got.Error, silent) {
			t.Errorf("message %d is answered %+v", i, got)
		}
	}
	if rest.Len() != 0 {
		t.Error("what came behind a message was left for the next")
	}
	test.Wire.(wired).messages <- raft.RPC{Command: &raft.AppendEntriesRequest{Term: 7}}
	asked <- nil
	if m := <-test.messages; m.Command.(*raft.AppendEntriesRequest).Term != 7 {
		t.Errorf("handed on: %+v", m)
	}
}
