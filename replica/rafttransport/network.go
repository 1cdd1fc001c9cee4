package rafttransport

import (
	"context"
	"io"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/msglimit"
	"github.com/stoutlock/stout/replica/raftlogger"
)

const (
	// Timeout bounds each message to a peer, and more for a large one (see scaledConn).
	// One heartbeat per peer is under way, so an unresponsive network delays that
	// peer's heartbeats by at most Timeout.
	Timeout = time.Second
	// bytesPerTimeout extends the bound for snapshots: one Timeout for each
	// bytesPerTimeout bytes.
	bytesPerTimeout = 32 << 10
	pool            = 3

	// MaxAppendEntries bounds the entries of one message to a follower. An entry is
	// a whole batch.
	MaxAppendEntries = 16
)

// Network configures connections between replicas.
type Network struct {
	// Listener accepts the others' connections. Dial opens one to the server of
	// an id at an address.
	Listener net.Listener
	Dial     func(ctx context.Context, server, addr string) (net.Conn, error)
	// Advertised is the address of this replica, which may be a name.
	Advertised string
	// At returns the address of the replica of a name, if the settings have
	// one.
	At     func(name string) (addr string, ok bool)
	Logger zerolog.Logger
}

// Wire carries Raft's messages over the network's connections.
func (n Network) Wire() Wire {
	few := &zerolog.BurstSampler{Burst: 3, Period: time.Minute}
	t := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Logger:  raftlogger.New(n.Logger),
		Stream:  &stream{Listener: n.Listener, network: n, logger: n.Logger.Sample(few)},
		MaxPool: pool,
		Timeout: Timeout,
	})
	t.TimeoutScale = bytesPerTimeout
	return addressed{t, n.At}
}

// addressed ensures that each message goes to exactly the member it is meant
// for. The library's transport dials, and pools connections, by address alone.
// So an address here names the member and where it is. The settings' address
// comes first, so that a replica may move; else that of the configuration.
//
// The library also identifies a candidate by its address in the vote that it
// stores (raft.go, requestVote). Two directories at one address must not be the
// same candidate.
type addressed struct {
	*raft.NetworkTransport
	known func(name string) (addr string, ok bool)
}

func (a addressed) at(id raft.ServerID, target raft.ServerAddress) raft.ServerAddress {
	name, _ := admission.Split(string(id))
	addr, ok := a.known(name)
	if !ok {
		_, addr = SplitAddress(target)
	}
	return Address(string(id), addr)
}

// Address returns an address that names a member and where it is, as the
// library and its configuration have it. The configuration accepts no address
// twice.
func Address(server, addr string) raft.ServerAddress {
	return raft.ServerAddress(server + "@" + addr)
}

// SplitAddress returns the server id and the host and port of an address.
func SplitAddress(at raft.ServerAddress) (server, addr string) {
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

// stream makes the library listen and dial through a network.
type stream struct {
	net.Listener
	network Network
	logger  zerolog.Logger // for refused messages; a few lines at a time
}

// messageBounds bound Raft's messages. The largest has MaxAppendEntries entries
// of membership.MaxEntryBytes. Its own fields, 18 values, and an entry's, 12,
// need a few hundred bytes. A snapshot's head includes the configuration.
var messageBounds = msglimit.Bounds{
	Entries:         MaxAppendEntries*(membership.MaxEntryBytes+1<<10) + 64<<10,
	Other:           64 << 10,
	Values:          1024,
	SnapshotTimeout: 3 * Timeout,
}

// Accept returns the next connection, with bounded messages.
func (s *stream) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return msglimit.Conn(c, messageBounds, func(err error) {
		s.logger.Warn().Err(err).Stringer("caller", c.RemoteAddr()).
			Msg("closed a connection to the replicas' port: it sent data that no replica of this version sends")
	}), nil
}

func (s *stream) Addr() net.Addr { return address(s.network.Advertised) }

func (s *stream) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	server, addr := SplitAddress(to)
	c, err := s.network.Dial(ctx, server, addr)
	if err != nil {
		return nil, err
	}
	return &scaledConn{Conn: c}, nil
}

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
