package replica

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	// rpcTimeout bounds each message to a peer. One heartbeat is in flight per
	// peer, so a black hole blocks that peer's heartbeats for so long.
	rpcTimeout = time.Second
	// rpcBytesPerTimeout stretches the bound for snapshots: one rpcTimeout for
	// each so many bytes.
	rpcBytesPerTimeout = 32 << 10
	rpcPool            = 3
)

// Transport carries Raft's messages to the other replicas.
type Transport interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// transport is the library's, with three changes: heartbeats get no fast path, no
// message has a follower commit more than it brings or than its leader has on
// disk, and a leader whose disk hangs falls silent. Embedding the interface keeps
// WithPreVote and WithClose.
type transport struct {
	Transport
	mute    func() error              // why nothing is sent to followers; nil while it is
	reached func(index uint64) uint64 // see asideLog
}

// SetHeartbeatHandler does nothing. The library would handle heartbeats on the
// connection's goroutine, and change the term and the state behind the main
// loop's back; logs can diverge that way (hashicorp/raft #695, open in v1.8.0).
// Without a handler they take the way of all other messages, which the Transport
// interface allows.
func (transport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntries sends entries or a heartbeat.
func (t transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := t.check(args); err != nil {
		return err
	}
	return t.Transport.AppendEntries(id, target, args, resp)
}

// AppendEntriesPipeline opens a way to send entries without waiting for answers.
func (t transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.Transport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return pipeline{p, t}, nil
}

type pipeline struct {
	raft.AppendPipeline
	transport transport
}

func (p pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if err := p.transport.check(args); err != nil {
		return nil, err
	}
	return p.AppendPipeline.AppendEntries(args, resp)
}

// check is the last look at a message before it leaves.
func (t transport) check(q *raft.AppendEntriesRequest) error {
	term := q.PrevLogTerm
	for _, l := range q.Entries {
		if l.Type == typeStandIn { // read by a leader that no longer is one
			return fmt.Errorf("log entry %d is in a snapshot", l.Index)
		}
		if l.Term < term { // so is this: it was replaced while it was read
			return fmt.Errorf("log entry %d is of term %d, behind one of term %d", l.Index, l.Term, term)
		}
		term = l.Term
	}
	if term > q.Term {
		return fmt.Errorf("a message of term %d has an entry of term %d", q.Term, term)
	}
	t.bound(q)
	return t.mute()
}

// bound lowers what a message says is committed to the last entry that it
// vouches for. Raft has the follower do so (Ongaro and Ousterhout 2014, figure 2:
// "min(leaderCommit, index of last new entry)"); the library's takes the end of
// its own log instead (raft.go, appendEntries). That may be an entry of an
// earlier leader that was never committed, and whose place the message does not
// reach because it was cut off or made before later entries were committed: the
// follower would apply what the others never will. A later message tells the
// rest.
func (t transport) bound(q *raft.AppendEntriesRequest) {
	q.LeaderCommitIndex = min(t.reached(q.LeaderCommitIndex), q.PrevLogEntry+uint64(len(q.Entries)))
}

func newTransport(o *Options, self Member, log hclog.Logger) (Transport, error) {
	l, err := net.Listen("tcp", o.RaftListen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("the address %s, on which to listen for the other replicas, is in use; is another stoutd running?", o.RaftListen)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for the other replicas on %s: %w", o.RaftListen, err)
	}
	t := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		ServerAddressProvider: addresses{o},
		Logger:                log,
		Stream:                &stream{Listener: l, advertised: address(self.RaftAddr)},
		MaxPool:               rpcPool,
		Timeout:               rpcTimeout,
	})
	t.TimeoutScale = rpcBytesPerTimeout
	return t, nil
}

// addresses tells where to dial a replica: where the options say, so that a
// replica may move; a member that they do not name is dialled where the
// replicated configuration says.
type addresses struct{ o *Options }

func (a addresses) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if m, ok := a.o.member(string(id)); ok {
		return raft.ServerAddress(m.RaftAddr), nil
	}
	return "", fmt.Errorf("replica %q is not in the list of replicas", id)
}

// stream is plain TCP under an advertised address, which may be a name.
type stream struct {
	net.Listener
	advertised address
}

func (s *stream) Addr() net.Addr { return s.advertised }

func (s *stream) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", string(to), timeout)
}

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
