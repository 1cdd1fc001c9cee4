package msglimit

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const patience = 5 * time.Second

// bounds are like a replica's.
var bounds = Bounds{Entries: 4 << 20, Other: 64 << 10, Values: 1024, SnapshotTimeout: time.Minute}

// wire is a stream layer without a network. It accepts the connections that it
// dials.
type wire struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	wrap  func(net.Conn) net.Conn

	mu   sync.Mutex
	sent bytes.Buffer // by the dialling end
}

func (w *wire) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case w.conns <- b:
		return &taped{a, w}, nil
	case <-w.done:
		return nil, net.ErrClosed
	}
}

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return w.wrap(c), nil
	case <-w.done:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error   { w.once.Do(func() { close(w.done) }); return nil }
func (w *wire) Addr() net.Addr { return &net.TCPAddr{} }

// taped records the data that is sent.
type taped struct {
	net.Conn
	on *wire
}

func (t *taped) Write(p []byte) (int, error) {
	t.on.mu.Lock()
	t.on.sent.Write(p)
	t.on.mu.Unlock()
	return t.Conn.Write(p)
}

// got is a transport's received message.
type got struct {
	command  any
	snapshot []byte
}

// transports returns the library's transports, one for each end, and the
// messages that arrive at the second.
func transports(t testing.TB, answer func(raft.RPC) got) (from *raft.NetworkTransport, w *wire, arrived chan got, refused chan error) {
	t.Helper()
	arrived, refused = make(chan got, 100), make(chan error, 100)
	w = &wire{conns: make(chan net.Conn), done: make(chan struct{}), wrap: func(c net.Conn) net.Conn {
		return Conn(c, bounds, func(err error) { refused <- err })
	}}
	end := func(s raft.StreamLayer) *raft.NetworkTransport {
		return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Logger: hclog.NewNullLogger(), Stream: s, MaxPool: 3, Timeout: 10 * time.Second,
		})
	}
	to := end(w)
	from = end(&dialler{w})
	stop := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for {
			select {
			case rpc := <-to.Consumer():
				arrived <- answer(rpc)
			case <-stop:
				return
			}
		}
	})
	t.Cleanup(func() {
		from.CloseStreams()
		_, _ = from.Close(), to.Close()
		close(stop)
		work.Wait()
	})
	return from, w, arrived, refused
}

// dialler dials only.
type dialler struct{ *wire }

func (d *dialler) Accept() (net.Conn, error) { <-d.done; return nil, net.ErrClosed }

// readAll answers as a replica does that has read everything.
func readAll(rpc raft.RPC) got {
	g := got{command: rpc.Command}
	if rpc.Reader != nil {
		g.snapshot, _ = io.ReadAll(rpc.Reader)
	}
	rpc.Respond(answerTo(rpc.Command), nil)
	return g
}

func answerTo(command any) any {
	switch command.(type) {
	case *raft.AppendEntriesRequest:
		return &raft.AppendEntriesResponse{Term: 7, Success: true}
	case *raft.RequestVoteRequest:
		return &raft.RequestVoteResponse{Term: 7, Granted: true}
	case *raft.RequestPreVoteRequest:
		return &raft.RequestPreVoteResponse{Term: 7, Granted: true}
	case *raft.InstallSnapshotRequest:
		return &raft.InstallSnapshotResponse{Term: 7, Success: true}
	}
	return &raft.TimeoutNowResponse{}
}

var header = raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("r1/a"), Addr: []byte("r1/a@h:1")}

// entries returns n entries of a given size.
func entries(n, size int) *raft.AppendEntriesRequest {
	//lint:ignore SA1019 the library sends it
	q := &raft.AppendEntriesRequest{RPCHeader: header, Term: 1 << 40, Leader: header.Addr, PrevLogEntry: 300, PrevLogTerm: 3, LeaderCommitIndex: 70000}
	for i := range n {
		q.Entries = append(q.Entries, &raft.Log{
			Index: 301 + uint64(i), Term: 3, Type: raft.LogCommand, Data: bytes.Repeat([]byte{0xdd}, size),
			Extensions: []byte{1}, AppendedAt: time.Unix(1, 2).UTC(),
		})
	}
	return q
}

func head(version raft.ProtocolVersion, size int64) *raft.InstallSnapshotRequest {
	h := header
	h.ProtocolVersion = version
	return &raft.InstallSnapshotRequest{
		RPCHeader: h, SnapshotVersion: 1, Term: 9, Leader: h.Addr, LastLogIndex: 1000, LastLogTerm: 8,
		Configuration: bytes.Repeat([]byte{1}, 700), ConfigurationIndex: 4, Size: size,
	}
}

// messages sends one message of each kind, entries also through a pipeline, and
// the largest that a replica sends. It returns the sent messages.
func messages(t testing.TB, from *raft.NetworkTransport) (want []got) {
	t.Helper()
	sent := func(command any, snapshot []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, got{command, snapshot})
	}
	for _, q := range []*raft.AppendEntriesRequest{{RPCHeader: header, Term: 3}, entries(0, 0), entries(1, 0), entries(1, 100), entries(16, 250<<10)} {
		sent(q, nil, from.AppendEntries("r2", "h", q, &raft.AppendEntriesResponse{}))
	}
	//lint:ignore SA1019 the library sends it
	vote := &raft.RequestVoteRequest{RPCHeader: header, Term: 9, Candidate: header.Addr, LastLogIndex: 1, LastLogTerm: 1 << 60, LeadershipTransfer: true}
	sent(vote, nil, from.RequestVote("r2", "h", vote, &raft.RequestVoteResponse{}))
	pre := &raft.RequestPreVoteRequest{RPCHeader: header, Term: 9, LastLogIndex: 1000, LastLogTerm: 200}
	sent(pre, nil, from.RequestPreVote("r2", "h", pre, &raft.RequestPreVoteResponse{}))
	now := &raft.TimeoutNowRequest{RPCHeader: header}
	sent(now, nil, from.TimeoutNow("r2", "h", now, &raft.TimeoutNowResponse{}))
	for _, size := range []int{0, 1, 1 << 20} {
		data := bytes.Repeat([]byte{0xdd}, size)
		q := head(raft.ProtocolVersionMax, int64(size))
		sent(q, data, from.InstallSnapshot("r2", "h", q, &raft.InstallSnapshotResponse{}, bytes.NewReader(data)))
	}
	p, err := from.AppendEntriesPipeline("r2", "h")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i := range 20 {
		q := entries(i%3, i*1000)
		f, err := p.AppendEntries(q, &raft.AppendEntriesResponse{})
		sent(q, nil, err)
		if <-p.Consumer() != f || f.Error() != nil {
			t.Fatal(f.Error())
		}
	}
	return want
}

// isClosed reports whether the other end has ended a connection.
func isClosed(t testing.TB, c net.Conn) bool {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, err := io.Copy(io.Discard, c)
	return err == nil || errors.Is(err, io.ErrClosedPipe)
}
