package simcell

import (
	"bytes"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
)

// wireTimeout bounds a Raft message and its answer, as in the replicas' own
// transport.
const wireTimeout = time.Second

// wire is the Raft transport of one process. Messages are delayed and may get
// lost, arrive twice or late. An answer may have no receiver any more.
type wire struct {
	p         *process
	inbox     chan raft.RPC
	heartbeat func(raft.RPC)
}

func newWire(p *process) *wire { return &wire{p: p, inbox: make(chan raft.RPC)} }

func (t *wire) Consumer() <-chan raft.RPC            { return t.inbox }
func (t *wire) LocalAddr() raft.ServerAddress        { return raft.ServerAddress(t.p.m.id) }
func (t *wire) Close() error                         { return nil }
func (t *wire) SetHeartbeatHandler(h func(raft.RPC)) { t.heartbeat = h }

func (t *wire) EncodePeer(id raft.ServerID, _ raft.ServerAddress) []byte { return []byte(id) }
func (t *wire) DecodePeer(b []byte) raft.ServerAddress                   { return raft.ServerAddress(b) }

func (t *wire) AppendEntries(id raft.ServerID, _ raft.ServerAddress, q *raft.AppendEntriesRequest, a *raft.AppendEntriesResponse) error {
	return exchange(t, id, q, a, nil)
}

func (t *wire) RequestVote(id raft.ServerID, _ raft.ServerAddress, q *raft.RequestVoteRequest, a *raft.RequestVoteResponse) error {
	return exchange(t, id, q, a, nil)
}

func (t *wire) RequestPreVote(id raft.ServerID, _ raft.ServerAddress, q *raft.RequestPreVoteRequest, a *raft.RequestPreVoteResponse) error {
	return exchange(t, id, q, a, nil)
}

func (t *wire) TimeoutNow(id raft.ServerID, _ raft.ServerAddress, q *raft.TimeoutNowRequest, a *raft.TimeoutNowResponse) error {
	return exchange(t, id, q, a, nil)
}

func (t *wire) InstallSnapshot(id raft.ServerID, _ raft.ServerAddress, q *raft.InstallSnapshotRequest, a *raft.InstallSnapshotResponse, data io.Reader) error {
	raw, err := io.ReadAll(data)
	if err != nil {
		return err
	}
	return exchange(t, id, q, a, raw)
}

// exchange sends a message and waits for the answer.
func exchange[Q, A any](t *wire, to raft.ServerID, q *Q, a *A, data []byte) error {
	w := t.p.m.w
	t.p.point()
	copies := 1
	if n := w.net.twice; n != 0 && w.chance(n) {
		copies = 2
	}
	answer := make(chan raft.RPCResponse, copies)
	for range copies {
		message := *q
		go t.carry(string(to), &message, data, answer)
	}
	repeat(t, to, *q, data)
	timeout := time.NewTimer(wireTimeout)
	defer timeout.Stop()
	select {
	case got := <-answer:
		if got.Error != nil {
			return got.Error
		}
		*a = *got.Response.(*A)
		t.p.noteAnswer(string(to))
		return nil
	case <-timeout.C:
		return errTimeout
	case <-t.p.gone.Done():
		return errReset
	}
}

// repeat may deliver a late copy of a message (see network.repeat). A snapshot
// takes long, and has copies even if other messages have none.
func repeat[Q any](t *wire, to raft.ServerID, q Q, data []byte) {
	often := t.p.m.w.net.again
	if data != nil {
		often = 3
	}
	t.p.m.w.net.repeat(often, func() { t.carry(string(to), &q, data, make(chan raft.RPCResponse, 1)) })
}

// carry takes one copy of a message to its receiver and the answer back.
func (t *wire) carry(server string, q any, data []byte, answer chan<- raft.RPCResponse) {
	w, from := t.p.m.w, t.p.m.id
	to, _ := admission.Split(server)
	w.stats.Messages++
	if !w.net.arrives(from, to) {
		return
	}
	receiver := w.machine(to).process
	if receiver == nil {
		answer <- raft.RPCResponse{Error: errRefused}
		return
	}
	if !receiver.opens(t.p, server) {
		answer <- raft.RPCResponse{Error: errOther}
		return
	}
	w.trace.mark(to, uint64(len(data)))
	w.oracle.look()
	got := make(chan raft.RPCResponse, 1)
	rpc := raft.RPC{Command: q, RespChan: got}
	if data != nil {
		rpc.Reader = bytes.NewReader(data)
	}
	if !receiver.wire.receive(rpc) {
		return
	}
	select {
	case r := <-got:
		w.oracle.look()
		if w.net.arrives(to, from) {
			answer <- r
		}
	case <-receiver.gone.Done():
	}
}

// dial opens a connection to a machine's process: one left over from earlier
// messages, or a new one, which needs a message there and back.
func (t *wire) dial(to string) (*process, error) {
	w, from := t.p.m.w, t.p.m.id
	leftOver := w.chance(2)
	reached := make(chan *process, 1)
	go func() {
		if leftOver {
			reached <- w.machine(to).process
		} else if w.net.conveys(from, to, w.now()) {
			if p := w.machine(to).process; w.net.conveys(to, from, w.now()) {
				reached <- p
			}
		}
	}()
	timeout := time.NewTimer(wireTimeout)
	defer timeout.Stop()
	select {
	case p := <-reached:
		if p == nil {
			return nil, errRefused
		}
		return p, nil
	case <-timeout.C:
		return nil, errTimeout
	case <-t.p.gone.Done():
		return nil, errReset
	}
}

// receive hands a message to Raft.
func (t *wire) receive(rpc raft.RPC) bool {
	t.p.awake()
	if q, ok := rpc.Command.(*raft.AppendEntriesRequest); ok && t.heartbeat != nil && isHeartbeat(q) {
		t.heartbeat(rpc)
		return true
	}
	select {
	case t.inbox <- rpc:
		return true
	case <-t.p.gone.Done():
		return false
	}
}

// isHeartbeat is the library's own rule (net_transport.go, handleCommand).
func isHeartbeat(q *raft.AppendEntriesRequest) bool {
	return q.Term != 0 && q.PrevLogEntry == 0 && q.PrevLogTerm == 0 && len(q.Entries) == 0 && q.LeaderCommitIndex == 0
}
