package rafttransport

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

var rewrite = flag.Bool("rewrite", false, "record the messages as they are now")

// oneConn is a listener of one connection.
type oneConn struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l oneConn) Close() error   { close(l.done); return nil }
func (l oneConn) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// overPipes returns a wire with pipes as connections. calls gets the other end
// of each that it dials; a connection put into taken is accepted.
func overPipes(t *testing.T) (w Wire, calls, taken chan net.Conn) {
	calls, taken = make(chan net.Conn, 1), make(chan net.Conn, 1)
	w = Network{
		Listener: oneConn{taken, make(chan struct{})}, Advertised: "10.0.0.1:7201", Logger: zerolog.Nop(),
		Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			calls <- theirs
			return ours, nil
		},
		At: func(string) (string, bool) { return "", false },
	}.Wire()
	t.Cleanup(func() { _ = w.Close() })
	return w, calls, taken
}

// written returns the bytes that one end of a pipe writes at once.
func written(t *testing.T, c net.Conn) []byte {
	t.Helper()
	b := make([]byte, 64<<10)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// goldenMessages returns the messages of the library's protocol, with every
// field set, and their answers.
func goldenMessages() []struct {
	name        string
	ask, answer any
} {
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("r1/a"), Addr: []byte("r1/a@10.0.0.1:7201")}
	return []struct {
		name        string
		ask, answer any
	}{
		//lint:ignore SA1019 Leader, like Candidate below, still goes over the wire
		{"append", &raft.AppendEntriesRequest{RPCHeader: header, Term: 2, Leader: []byte("leader"), PrevLogEntry: 3, PrevLogTerm: 1, LeaderCommitIndex: 4,
			Entries: []*raft.Log{{Index: 4, Term: 2, Type: raft.LogConfiguration, Data: []byte("data"), Extensions: []byte("more"), AppendedAt: time.Unix(1_700_000_000, 8).UTC()}}},
			&raft.AppendEntriesResponse{RPCHeader: header, Term: 2, LastLog: 4, Success: true, NoRetryBackoff: true}},
		//lint:ignore SA1019 see above
		{"vote", &raft.RequestVoteRequest{RPCHeader: header, Term: 2, Candidate: []byte("candidate"), LastLogIndex: 3, LastLogTerm: 1, LeadershipTransfer: true},
			&raft.RequestVoteResponse{RPCHeader: header, Term: 2, Peers: []byte("peers"), Granted: true}},
		{"prevote", &raft.RequestPreVoteRequest{RPCHeader: header, Term: 2, LastLogIndex: 3, LastLogTerm: 1},
			&raft.RequestPreVoteResponse{RPCHeader: header, Term: 2, Granted: true}},
		{"snapshot", &raft.InstallSnapshotRequest{RPCHeader: header, SnapshotVersion: 1, Term: 2, Leader: []byte("leader"), LastLogIndex: 3, LastLogTerm: 1,
			Peers: []byte("peers"), Configuration: []byte("configuration"), ConfigurationIndex: 2, Size: 5},
			&raft.InstallSnapshotResponse{RPCHeader: header, Term: 2, Success: true}},
		{"timeoutnow", &raft.TimeoutNowRequest{RPCHeader: header}, &raft.TimeoutNowResponse{RPCHeader: header}},
	}
}

// sendGolden makes a wire send a message, without waiting for the answer.
func sendGolden(w Wire, ask any) {
	const id, at = raft.ServerID("r2/b"), raft.ServerAddress("r2/b@10.0.0.2:7201")
	switch q := ask.(type) {
	case *raft.AppendEntriesRequest:
		_ = w.AppendEntries(id, at, q, &raft.AppendEntriesResponse{})
	case *raft.RequestVoteRequest:
		_ = w.RequestVote(id, at, q, &raft.RequestVoteResponse{})
	case *raft.RequestPreVoteRequest:
		_ = w.RequestPreVote(id, at, q, &raft.RequestPreVoteResponse{})
	case *raft.InstallSnapshotRequest:
		_ = w.InstallSnapshot(id, at, q, &raft.InstallSnapshotResponse{}, strings.NewReader("state"))
	case *raft.TimeoutNowRequest:
		_ = w.TimeoutNow(id, at, q, &raft.TimeoutNowResponse{})
	}
}

// TestGoldenMessages: replicas of two releases send each other the library's
// messages. A cell is upgraded one replica after the other, so a new release of
// the library must not change the bytes unnoticed.
func TestGoldenMessages(t *testing.T) {
	for _, m := range goldenMessages() {
		t.Run(m.name, func(t *testing.T) {
			w, calls, taken := overPipes(t)
			sent := make(chan struct{})
			go func() { defer close(sent); sendGolden(w, m.ask) }()
			at := <-calls
			asked := written(t, at)
			_ = at.Close()
			<-sent
			golden(t, m.name+"-request.hex", asked)

			// The other end decodes the same message, and its answer is
			// unchanged.
			ours, theirs := net.Pipe()
			defer ours.Close()
			taken <- theirs
			go func() {
				_, _ = ours.Write(asked)
				if m.name == "snapshot" {
					_, _ = ours.Write([]byte("state"))
				}
			}()
			call := <-w.Consumer()
			if !reflect.DeepEqual(call.Command, m.ask) {
				t.Errorf("it was taken for %+v, want %+v", call.Command, m.ask)
			}
			call.Respond(m.answer, errors.New("an error"))
			golden(t, m.name+"-response.hex", written(t, ours))
		})
	}
}

// golden compares bytes with a file, or records them.
func golden(t *testing.T, name string, raw []byte) {
	t.Helper()
	file, got := filepath.Join("testdata", name), hex.EncodeToString(raw)+"\n"
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("%s: %v: the bytes are\n%s and were\n%s", name, err, got, want)
	}
}
