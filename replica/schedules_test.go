package replica

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/datadir"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/rafttransport"
	"github.com/stoutlock/stout/replica/state"
)

// memoryCell is a cell in memory, for virtual time. The test controls which
// replicas reach each other, and the disks.
type memoryCell struct {
	t     *testing.T
	all   []*Replica
	disks map[string]*memoryDisk // by id, as wires
	wires map[string]*memoryWire
}

// memoryDisk may hang, and be late.
type memoryDisk struct {
	*raft.InmemStore
	hangs   atomic.Bool // writes of entries wait for the crash, and are not made
	crash   func()
	crashed chan struct{}
	late    atomic.Uint64 // the entry that is read next; the read returns when the test allows it
	goOn    func()
	going   chan struct{}
}

func newMemoryDisk(store *raft.InmemStore) *memoryDisk {
	d := &memoryDisk{InmemStore: store, crashed: make(chan struct{}), going: make(chan struct{})}
	d.crash = sync.OnceFunc(func() { close(d.crashed) })
	d.goOn = sync.OnceFunc(func() { close(d.going) })
	return d
}

func (d *memoryDisk) StoreLog(l *raft.Log) error { return d.StoreLogs([]*raft.Log{l}) }

func (d *memoryDisk) StoreLogs(logs []*raft.Log) error {
	if d.hangs.Load() {
		<-d.crashed
		return errDisk
	}
	return d.InmemStore.StoreLogs(logs)
}

func (d *memoryDisk) GetLog(index uint64, l *raft.Log) error {
	err := d.InmemStore.GetLog(index, l)
	if index > 0 && d.late.CompareAndSwap(index, 0) {
		<-d.going
	}
	return err
}

// term returns the term of an entry, 0 for a missing one.
func (d *memoryDisk) term(index uint64) uint64 {
	var l raft.Log
	if d.InmemStore.GetLog(index, &l) != nil {
		return 0
	}
	return l.Term
}

// memoryWire may lose all messages that do not belong to an election.
type memoryWire struct {
	*raft.InmemTransport
	votesOnly atomic.Bool
	voteDelay atomic.Int64 // of a message about votes, in nanoseconds

	snapshots     atomic.Int64 // sent so far
	snapshotDelay atomic.Int64 // in nanoseconds
}

func (w *memoryWire) RequestPreVote(id raft.ServerID, to raft.ServerAddress, q *raft.RequestPreVoteRequest, a *raft.RequestPreVoteResponse) error {
	time.Sleep(time.Duration(w.voteDelay.Load())) // virtual
	return w.InmemTransport.RequestPreVote(id, to, q, a)
}

func (w *memoryWire) RequestVote(id raft.ServerID, to raft.ServerAddress, q *raft.RequestVoteRequest, a *raft.RequestVoteResponse) error {
	time.Sleep(time.Duration(w.voteDelay.Load())) // virtual
	return w.InmemTransport.RequestVote(id, to, q, a)
}

func (w *memoryWire) AppendEntries(id raft.ServerID, to raft.ServerAddress, q *raft.AppendEntriesRequest, a *raft.AppendEntriesResponse) error {
	if w.votesOnly.Load() {
		return errors.New("lost")
	}
	return w.InmemTransport.AppendEntries(id, to, q, a)
}

func (w *memoryWire) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, q *raft.InstallSnapshotRequest, a *raft.InstallSnapshotResponse, data io.Reader) error {
	w.snapshots.Add(1)
	raw, err := io.ReadAll(data)
	time.Sleep(time.Duration(w.snapshotDelay.Load())) // virtual
	return errors.Join(err, w.InmemTransport.InstallSnapshot(id, to, q, a, bytes.NewReader(raw)))
}

// steered starts a cell of n replicas that are all connected.
func steered(t *testing.T, n int) *memoryCell {
	t.Helper()
	const heartbeat = time.Second
	c := &memoryCell{t: t, disks: map[string]*memoryDisk{}, wires: map[string]*memoryWire{}}
	var members []membership.Member
	for _, id := range []string{"r1", "r2", "r3", "r4", "r5"}[:n] {
		members = append(members, membership.Member{ID: id, RaftAddr: id})
	}
	began := time.Now()
	for _, m := range members {
		c.disks[m.ID] = newMemoryDisk(raft.NewInmemStore())
		c.all = append(c.all, c.start(Options{
			Cell: "memory", ID: m.ID, Members: members, Logger: zerolog.Nop(),
			MasterLease: heartbeat, HeartbeatTimeout: heartbeat, ElectionTimeout: heartbeat, ClockDrift: 0.01,
			Clock: func() time.Duration { return time.Since(began) },
		}, false))
	}
	c.link(c.all...)
	return c
}

// inMemory returns the address of a replica of a cell in memory.
func inMemory(id string) raft.ServerAddress {
	return rafttransport.Address(admission.ServerID(id, id), id)
}

// memoryIdentity returns the identity of a founder with a directory named like
// itself.
func memoryIdentity(o Options, founded bool) admission.Identity {
	who := admission.Identity{Cell: o.Cell, ID: o.ID, Directory: o.ID, Founded: founded}
	for _, m := range o.Members {
		who.Founding = append(who.Founding, admission.Founder{ID: m.ID, Directory: m.ID, RaftAddr: m.RaftAddr})
	}
	who.CellID = who.Founding.CellID(o.Cell)
	return who
}

func (c *memoryCell) start(o Options, founded bool) *Replica {
	c.t.Helper()
	_, wire := raft.NewInmemTransportWithTimeout(inMemory(o.ID), rafttransport.Timeout)
	c.wires[o.ID] = &memoryWire{InmemTransport: wire}
	r, err := Start(o, datadir.Stores{
		Logs: c.disks[o.ID], Votes: c.disks[o.ID], Snapshots: raft.NewInmemSnapshotStore(),
		Identity: memoryIdentity(o, founded), Save: func(admission.Identity) error { return nil }, Close: func() error { return nil },
	}, Peers{Transport: c.wires[o.ID]})
	must(c.t, err)
	return r
}

// restarted returns the replica after a crash, with the contents of its disk,
// cut off.
func (c *memoryCell) restarted(r *Replica) *Replica {
	c.t.Helper()
	c.cut(r)
	c.disks[r.ID()].crash()
	must(c.t, r.Close())
	c.disks[r.ID()] = newMemoryDisk(c.disks[r.ID()].InmemStore)
	again := c.start(r.opts, true)
	c.all = append(without(c.all, r), again)
	return again
}

// link connects replicas with each other.
func (c *memoryCell) link(some ...*Replica) {
	for _, a := range some {
		for _, b := range without(some, a) {
			c.wires[a.ID()].Connect(inMemory(b.ID()), c.wires[b.ID()].InmemTransport)
		}
	}
}

// cut disconnects replicas from all others.
func (c *memoryCell) cut(some ...*Replica) {
	for _, r := range some {
		c.wires[r.ID()].DisconnectAll()
		for _, w := range c.wires {
			w.Disconnect(inMemory(r.ID()))
		}
	}
}

// alone makes a leader that is cut off write an entry, and returns its index.
func (c *memoryCell) alone(leader *Replica, epoch uint64, session string) uint64 {
	c.t.Helper()
	disk := c.disks[leader.ID()]
	before, _ := disk.LastIndex()
	leader.Submit(state.Batch{Epoch: epoch, LeaseMS: 1000, Commands: []state.Command{open(session)}})
	until(c.t, "the entry is on the leader's disk", func() bool { return disk.term(before+1) > 0 })
	return before + 1
}

// close closes all replicas, hung or not.
func (c *memoryCell) close() {
	for _, r := range c.all {
		c.disks[r.ID()].crash()
		c.disks[r.ID()].goOn()
		must(c.t, r.Close())
	}
}

// TestEarlierTermsWaitForTheLeadersOwn: an entry of an earlier term takes
// effect nowhere before an entry of the leader's own term is on the leader's
// disk and on the disks of a majority (Ongaro and Ousterhout 2014, figure 8).
// Otherwise it may still be replaced.
func TestEarlierTermsWaitForTheLeadersOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cell := steered(t, 3)
		defer cell.close()
		a, epoch := lead(t, cell.all...)
		rest := without(cell.all, a)
		same(t, a, rest...)

		// The first term: an entry that only a has.
		cell.cut(a)
		at := cell.alone(a, epoch, "lost")

		// The second: b leads, and c does not receive its first entry.
		for _, r := range rest {
			cell.wires[r.ID()].votesOnly.Store(true)
		}
		b := leads(t, rest)
		c := without(rest, b)[0]
		until(t, "b's first entry is on its disk", func() bool { return cell.disks[b.ID()].term(at) > 0 })
		cell.cut(b, c)

		// The third: a leads again, by c's vote. Its disk hangs, and c gets the
		// entry.
		cell.disks[a.ID()].hangs.Store(true)
		cell.link(a, c)
		leads(t, []*Replica{a})
		until(t, "c has the entry", func() bool { return cell.disks[c.ID()].term(at) > 0 })
		time.Sleep(time.Second / 2) // virtual: c learns what is committed
		if c.State().Index >= at {
			t.Error("c has applied it")
		}

		// a crashes. The fourth: b leads, by a's vote, and replaces the entry.
		cell.cut(c)
		a = cell.restarted(a)
		cell.wires[b.ID()].votesOnly.Store(false)
		cell.link(a, b)
		lead(t, b)
		cell.link(a, b, c)
		same(t, b, a, c)
	})
}

// TestMessagesAreOfOneLog: a leader that is deposed while it composes a message
// finds other entries behind the first ones. A follower with both would have a
// log like no other's.
func TestMessagesAreOfOneLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cell := steered(t, 5)
		defer cell.close()
		a, epoch := lead(t, cell.all...)
		rest := without(cell.all, a)
		same(t, a, rest...)
		b, c, d, e := rest[0], rest[1], rest[2], rest[3]

		// The first term: two entries that only a has.
		cell.cut(cell.all...)
		at := cell.alone(a, epoch, "lost")
		cell.alone(a, epoch, "lost too")

		// The second: a leads again, by the votes of c and d. It has read the
		// first of the two, for c.
		a = cell.restarted(a)
		cell.wires[a.ID()].votesOnly.Store(true)
		cell.link(a, c, d)
		leads(t, []*Replica{a})
		cell.cut(d)
		disk := cell.disks[a.ID()]
		disk.late.Store(at)
		cell.wires[a.ID()].votesOnly.Store(false)
		until(t, "a reads the entry", func() bool { return disk.late.Load() == 0 })
		cell.cut(c) // so that it does not learn of later terms

		// The third: another leads, by the votes of b, d and e, and replaces
		// both at a.
		cell.link(b, d, e)
		next, _ := lead(t, b, d, e)
		term, _ := next.Leading()
		cell.link(a, next)
		until(t, "both are replaced", func() bool { return disk.term(at+1) == term })

		// a continues to read, and c receives the message.
		cell.link(a, c)
		disk.goOn()
		time.Sleep(time.Second) // virtual
		if had := cell.disks[c.ID()]; had.term(at+1) == term && had.term(at) != term {
			t.Errorf("entry %d of c is of term %d, and that behind it of term %d", at, had.term(at), term)
		}
	})
}

// TestVotersNeedNotKnowTheCandidate: a replica that lags behind a change of
// members votes for a candidate that it does not know, if it has no leader.
// Otherwise a majority of healthy replicas could be unable to elect a leader,
// for ever.
func TestVotersNeedNotKnowTheCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cell := steered(t, 3)
		defer cell.close()
		leader, _ := lead(t, cell.all...)
		voter := without(cell.all, leader)[0]
		same(t, leader, cell.all...)
		_, candidate := raft.NewInmemTransportWithTimeout("r9/new@r9", rafttransport.Timeout)
		candidate.Connect(inMemory(voter.ID()), cell.wires[voter.ID()].InmemTransport)

		header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("r9/new"), Addr: []byte("r9/new@r9")}
		ask := func(term, index uint64) (preVote, vote bool) {
			t.Helper()
			var pre raft.RequestPreVoteResponse
			must(t, candidate.RequestPreVote("", inMemory(voter.ID()), &raft.RequestPreVoteRequest{RPCHeader: header,
				Term: term, LastLogIndex: index, LastLogTerm: term - 1}, &pre))
			var real raft.RequestVoteResponse
			must(t, candidate.RequestVote("", inMemory(voter.ID()), &raft.RequestVoteRequest{RPCHeader: header,
				Term: term, LastLogIndex: index, LastLogTerm: term - 1}, &real))
			return pre.Granted, real.Granted
		}
		if pre, vote := ask(100, 1000); pre || vote {
			t.Errorf("beside a leader: pre-vote %v, vote %v", pre, vote)
		}
		cell.cut(cell.all...)
		until(t, "it hears no leader", func() bool { return voter.Leader() == "" })
		if pre, vote := ask(101, 1000); !pre || !vote {
			t.Errorf("with a log that is ahead: pre-vote %v, vote %v", pre, vote)
		}
		for _, late := range []uint64{101, 100} { // it has voted for r9 in term 101 only
			if _, vote := ask(late, 1001); vote != (late == 101) {
				t.Errorf("in term %d: vote %v", late, vote)
			}
		}
	})
}

// TestNobodyLeadsWithoutAVote: a replica that does not vote must not campaign,
// even when asked to. The library would make it lead, and end itself.
func TestNobodyLeadsWithoutAVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cell := steered(t, 3)
		defer cell.close()
		leader, _ := lead(t, cell.all...)
		follower := without(cell.all, leader)[0]
		same(t, leader, cell.all...)
		index := leader.raft.DemoteVoter(follower.self(), 0, time.Second)
		must(t, index.Error())
		until(t, "it hears of that", func() bool {
			return slices.ContainsFunc(follower.servers(), func(s raft.Server) bool { return s.ID == follower.self() && s.Suffrage != raft.Voter })
		})

		var answer raft.TimeoutNowResponse
		wire := cell.wires[leader.ID()]
		if err := wire.TimeoutNow("", inMemory(follower.ID()), &raft.TimeoutNowRequest{}, &answer); !errors.Is(err, rafttransport.ErrNoVote) {
			t.Errorf("it was told to campaign, and answers %v", err)
		}
		time.Sleep(3 * time.Second) // virtual
		if term, ok := leader.Leading(); !ok {
			t.Errorf("the leader does not lead any more in term %d", term)
		}
	})
}
