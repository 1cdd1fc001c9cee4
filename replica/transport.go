package replica

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/cell"
	"github.com/stoutlock/stout/replica/guard"
	"github.com/stoutlock/stout/replica/link"
	"github.com/stoutlock/stout/replica/raftlogger"
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

// transport is the library's, with seven changes: heartbeats get no fast path, no
// message has a follower commit more than it brings or than its leader has on
// disk, none leaves a replica that does not lead any more, a leader whose disk hangs
// falls silent, a pipeline ends with the first message that fails, a follower that
// has forgotten what it had acknowledged is sent nothing, and candidates are judged by
// their logs alone (voting.go). Embedding the interface keeps WithPreVote and
// WithClose.
type transport struct {
	Transport
	mute    func() error              // why nothing is sent to followers; nil while it is
	reached func(index uint64) uint64 // see asideLog
	acks    *acknowledged             // may be nil
	leads   func(term uint64) bool    // whether this replica is the leader of a term
	renew   func()                    // has a newer snapshot taken, and does not wait for it

	messages chan raft.RPC // of the others, as passMessages has them
}

// Consumer is where the library takes the messages of the other replicas from.
func (t transport) Consumer() <-chan raft.RPC { return t.messages }

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
	least, err := t.acks.sending(id, args.Term)
	if err != nil {
		return err
	}
	if err := t.Transport.AppendEntries(id, target, args, resp); err != nil {
		return err
	}
	return t.acks.answered(id, least, args, resp)
}

// AppendEntriesPipeline opens a way to send entries without waiting for answers.
func (t transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.Transport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return newPipeline(p, func(q *raft.AppendEntriesRequest) error {
		if _, err := t.acks.sending(id, q.Term); err != nil {
			return err
		}
		return t.check(q)
	}, func(f raft.AppendFuture) {
		if f.Error() == nil { // one that has begun anew is met by AppendEntries first
			_ = t.acks.answered(id, 0, f.Request(), f.Response())
		}
	}), nil
}

// InstallSnapshot sends a snapshot, behind a heartbeat: only in the answer to that does
// the follower tell where its log ended before.
//
// A follower may have entries of an earlier leader's around the end of the snapshot,
// which were never committed. Raft has it discard them (Ongaro and Ousterhout 2014,
// section 7); the library's keeps them, refuses what goes on from there, and is sent the
// same snapshot again, for ever. One that ends behind them mends it.
func (t transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, q *raft.InstallSnapshotRequest, r *raft.InstallSnapshotResponse, data io.Reader) error {
	heartbeat := raft.AppendEntriesRequest{RPCHeader: q.RPCHeader, Term: q.Term} // the header says who leads
	if err := t.AppendEntries(id, target, &heartbeat, &raft.AppendEntriesResponse{}); err != nil {
		return err
	}
	err := t.Transport.InstallSnapshot(id, target, q, r, data)
	if err == nil && r.Success && r.Term == q.Term {
		if t.acks.installed(id, q.Term, q.LastLogIndex) {
			t.renew()
		}
	}
	return err
}

// TimeoutNow hands mastership over.
func (t transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, q *raft.TimeoutNowRequest, r *raft.TimeoutNowResponse) error {
	if err := t.acks.lost(id); err != nil {
		return err
	}
	return t.Transport.TimeoutNow(id, target, q, r)
}

// check is the last look at a message before it leaves. While a replica leads in a
// term nobody else changes its log: where it still leads, what the message says of
// the log is from its own time. The library's goroutine that puts messages together
// may come to the next one after that, when entries have been replaced, or stand
// before a snapshot that was installed since and say nothing any more of what is
// committed.
func (t transport) check(q *raft.AppendEntriesRequest) error {
	if !t.leads(q.Term) {
		return fmt.Errorf("this replica does not lead in term %d any more", q.Term)
	}
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

// newTransport carries Raft's messages over the host's connections.
func newTransport(o *Options, h *host) Transport {
	self, _ := o.member(o.ID)
	t := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Logger:  raftlogger.New(o.Logger),
		Stream:  newStream(o, h, address(self.RaftAddr)),
		MaxPool: rpcPool,
		Timeout: rpcTimeout,
	})
	t.TimeoutScale = rpcBytesPerTimeout
	return addressed{t, o}
}

// addressed has each message go to the very member that it is meant for: the
// library's transport dials, and pools connections, by address alone. So an
// address says which member is wanted there, and where it is: where the options
// say, so that a replica may move, else where the configuration says.
//
// The library also takes the address of a candidate for whom it is in the vote
// that it stores (raft.go, requestVote): two directories at one address must not
// be the same candidate.
type addressed struct {
	*raft.NetworkTransport
	opts *Options
}

func (a addressed) at(id raft.ServerID, target raft.ServerAddress) raft.ServerAddress {
	name, _ := admission.Split(string(id))
	if m, ok := a.opts.member(name); ok {
		return serverAddress(string(id), m.RaftAddr)
	}
	_, addr := parted(target)
	return serverAddress(string(id), addr)
}

// serverAddress is the address of a member as the library has it, also in the
// configuration, which takes no address twice.
func serverAddress(server, addr string) raft.ServerAddress {
	return raft.ServerAddress(server + "@" + addr)
}

// parted is the server id and the host and port of an address.
func parted(at raft.ServerAddress) (server, addr string) {
	server, addr, _ = strings.Cut(string(at), "@")
	return server, addr
}

func (a addressed) EncodePeer(id raft.ServerID, target raft.ServerAddress) []byte {
	return a.NetworkTransport.EncodePeer(id, a.at(id, target))
}

func (a addressed) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	return a.NetworkTransport.AppendEntriesPipeline(id, a.at(id, target))
}

func (a addressed) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return a.NetworkTransport.AppendEntries(id, a.at(id, target), args, resp)
}

func (a addressed) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return a.NetworkTransport.RequestVote(id, a.at(id, target), args, resp)
}

func (a addressed) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return a.NetworkTransport.RequestPreVote(id, a.at(id, target), args, resp)
}

func (a addressed) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return a.NetworkTransport.InstallSnapshot(id, a.at(id, target), args, resp, data)
}

func (a addressed) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return a.NetworkTransport.TimeoutNow(id, a.at(id, target), args, resp)
}

// stream has the library listen to the host and dial through it, under an
// advertised address, which may be a name.
type stream struct {
	net.Listener
	host       *host
	advertised address
	logger     zerolog.Logger // of what is refused; a few lines at a time
}

func newStream(o *Options, h *host, advertised address) *stream {
	few := &zerolog.BurstSampler{Burst: 3, Period: time.Minute}
	return &stream{Listener: h.links.Kind(link.Raft), host: h, advertised: advertised, logger: o.Logger.Sample(few)}
}

// messageBounds are those of Raft's messages. The largest that is sent has
// maxAppendEntries entries of cell.MaxEntryBytes; its own fields, 18 values, and those of
// an entry, 12, take a few hundred bytes. A snapshot's head has the configuration.
var messageBounds = guard.Bounds{
	Entries: maxAppendEntries*(cell.MaxEntryBytes+1<<10) + 64<<10,
	Other:   64 << 10,
	Values:  1024,
}

// Accept returns the next connection, whose messages are bounded.
func (s *stream) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return guard.Conn(c, messageBounds, func(err error) {
		s.logger.Warn().Err(err).Stringer("caller", c.RemoteAddr()).
			Msg("what arrived on the replicas' port is nothing that a replica of this version sends; the connection was closed")
	}), nil
}

func (s *stream) Addr() net.Addr { return s.advertised }

func (s *stream) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	server, addr := parted(to)
	return s.host.dial(ctx, link.Raft, server, addr)
}

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
