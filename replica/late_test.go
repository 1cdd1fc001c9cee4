package replica

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/datadir"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/rafttransport"
)

// Late copies of messages from the current leader: it had given up a message
// and sent it again over another connection.

// header returns the header of a leader's messages.
func header(leader *Replica) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(leader.self()), Addr: []byte(inMemory(leader.ID()))}
}

// snapshots makes replicas take snapshots, and keep only the entries behind
// them.
func snapshots(t *testing.T, all ...*Replica) {
	t.Helper()
	for _, r := range all {
		must(t, r.raft.Snapshot().Error())
		metas, err := r.stores.Snapshots.List()
		must(t, err)
		must(t, r.disk.Logs.DeleteRange(1, metas[0].Index))
	}
}

// snapshot sends a follower the latest snapshot of a leader, as the library does
// (replication.go, sendLatestSnapshot), each time that it is called.
func (c *memoryCell) snapshot(leader, follower *Replica) (send func(), end uint64) {
	t := c.t
	t.Helper()
	metas, err := leader.stores.Snapshots.List()
	must(t, err)
	meta, body, err := leader.stores.Snapshots.Open(metas[0].ID)
	must(t, err)
	raw, err := io.ReadAll(body)
	must(t, err)
	term, _ := leader.Leading()
	q := raft.InstallSnapshotRequest{
		RPCHeader: header(leader), SnapshotVersion: meta.Version, Term: term,
		LastLogIndex: meta.Index, LastLogTerm: meta.Term, Size: meta.Size,
		Configuration: raft.EncodeConfiguration(meta.Configuration), ConfigurationIndex: meta.ConfigurationIndex,
	}
	return func() {
		t.Helper()
		var r raft.InstallSnapshotResponse
		must(t, c.wires[leader.ID()].InmemTransport.InstallSnapshot(follower.self(), inMemory(follower.ID()), &q, &r, bytes.NewReader(raw)))
		if !r.Success {
			t.Error("the snapshot is refused")
		}
	}, meta.Index
}

// lateSnapshot starts a cell of three in which a follower has received a
// snapshot, and a copy of it is late.
func lateSnapshot(t *testing.T) (c *memoryCell, a, f *Replica, epoch uint64, late func()) {
	c = steered(t, 3)
	a, epoch = lead(t, c.all...)
	same(t, a, c.all...)
	f = without(c.all, a)[0]
	c.cut(f)
	write(t, a, epoch, "x", 20)
	snapshots(t, a) // f needs it
	late, end := c.snapshot(a, f)
	c.link(c.all...)
	same(t, a, c.all...)
	if own, err := f.stores.Snapshots.List(); err != nil || len(own) == 0 || own[0].Index != end {
		t.Fatalf("the follower has got no snapshot (%v): the test shows nothing", err)
	}
	return c, a, f, epoch, late
}

// TestSnapshotOverASlowLink: the leader takes a later snapshot and compacts its log
// while a follower receives one. The follower needs no other.
func TestSnapshotOverASlowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := steered(t, 3)
		defer c.close()
		a, epoch := lead(t, c.all...)
		same(t, a, c.all...)
		f := without(c.all, a)[0]
		c.cut(f)
		write(t, a, epoch, "x", 20)
		snapshots(t, a)
		wire := c.wires[a.ID()]
		wire.snapshotDelay.Store(int64(time.Minute))
		c.link(c.all...)
		until(t, "a snapshot is being sent", func() bool { return wire.snapshots.Load() == 1 })
		time.Sleep(45 * time.Second) // it has all of it, and restores it
		write(t, a, epoch, "y", 20)
		snapshots(t, a)
		same(t, a, c.all...)
		if n := wire.snapshots.Load(); n != 1 {
			t.Errorf("%d snapshots were sent", n)
		}
	})
}

// TestLateSnapshotChangesNothing: neither right after it, nor after later
// entries.
func TestLateSnapshotChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, f, epoch, late := lateSnapshot(t)
		defer c.close()
		for _, prefix := range []string{"y", "z"} {
			before, last, hash := f.State(), f.raft.LastIndex(), f.State().Hash()
			late()
			synctest.Wait()
			if now := f.State(); now != before || now.Hash() != hash || f.raft.LastIndex() != last {
				t.Errorf("the follower is at entry %d of %d, and was at %d of %d", now.Index, f.raft.LastIndex(), before.Index, last)
			}
			write(t, a, epoch, prefix, 20)
			same(t, a, c.all...)
		}
	})
}

// TestLateSnapshotKeepsTheConfiguration: the cell has grown to five since. With
// the configuration of three the follower and one other would elect a second
// master.
func TestLateSnapshotKeepsTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, f, epoch, late := lateSnapshot(t)
		defer c.close()
		b := without(without(c.all, a), f)[0]
		for _, id := range []string{"r4", "r5"} {
			r := c.join(a, id)
			c.link(c.all...)
			c.change(a, membership.AddNonvoter, r)
			same(t, a, r)
			c.change(a, membership.MakeVoter, r)
		}
		same(t, a, c.all...)
		until(t, "the follower has got the last change", func() bool { return voters(f) == 5 }) // no state shows a change
		late()
		if n := voters(f); n != 5 {
			t.Errorf("the follower goes by a configuration with %d voters", n)
		}
		write(t, a, epoch, "y", 5)
		same(t, a, c.all...)
		must(t, f.raft.Snapshot().Error())
		if metas, err := f.stores.Snapshots.List(); err != nil || len(metas[0].Configuration.Servers) != 5 {
			t.Errorf("its snapshot up to entry %d has a configuration of %d servers", metas[0].Index, len(metas[0].Configuration.Servers))
		}
		c.cut(b, f)
		c.link(b, f)
		time.Sleep(20 * time.Second) // virtual
		for _, r := range []*Replica{b, f} {
			if term, leads := r.Leading(); leads {
				t.Errorf("%s leads in term %d, with two of five", r.ID(), term)
			}
		}
		write(t, a, epoch, "z", 1)
	})
}

// TestSnapshotWithinTheLog: answers were lost, so a leader sends a snapshot to
// a follower that has all of it and a configuration behind it. The follower
// keeps both.
func TestSnapshotWithinTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := steered(t, 3)
		defer c.close()
		a, epoch := lead(t, c.all...)
		write(t, a, epoch, "x", 20)
		must(t, a.raft.Snapshot().Error())
		r := c.join(a, "r4")
		c.link(c.all...)
		c.change(a, membership.AddNonvoter, r)
		same(t, a, c.all...)
		f := without(c.all, a)[0]
		before := f.State()
		send, _ := c.snapshot(a, f)
		send()
		if now := f.State(); now != before || len(f.servers()) != 4 {
			t.Errorf("the follower is at entry %d, and was at %d; it goes by a configuration of %d servers", now.Index, before.Index, len(f.servers()))
		}
		write(t, a, epoch, "y", 5)
		same(t, a, c.all...)
	})
}

// TestSnapshotBehindUnansweredEntries: a follower has received entries, its
// answer was lost, and it has taken a snapshot behind them and cut its log. The
// leader sends them again, and its own snapshot ends before them. The follower
// continues.
func TestSnapshotBehindUnansweredEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := steered(t, 3)
		defer c.close()
		a, epoch := lead(t, c.all...)
		write(t, a, epoch, "x", 20)
		same(t, a, c.all...)
		snapshots(t, a)
		f := without(c.all, a)[0]
		prev := f.State().Index
		c.cut(f)
		write(t, a, epoch, "y", 20)
		disk, term := c.disks[a.ID()], c.disks[f.ID()].term(prev)
		q := raft.AppendEntriesRequest{RPCHeader: header(a), Term: term, PrevLogEntry: prev, PrevLogTerm: term, LeaderCommitIndex: a.State().Index}
		for i := prev + 1; i <= a.State().Index; i++ {
			l := new(raft.Log)
			must(t, disk.GetLog(i, l))
			q.Entries = append(q.Entries, l)
		}
		c.wires[a.ID()].Connect(inMemory(f.ID()), c.wires[f.ID()].InmemTransport)
		must(t, c.wires[a.ID()].InmemTransport.AppendEntries(f.self(), inMemory(f.ID()), &q, new(raft.AppendEntriesResponse)))
		c.cut(f)
		same(t, a, f)
		snapshots(t, f)
		c.link(c.all...)
		write(t, a, epoch, "z", 1)
		same(t, a, c.all...)
	})
}

// TestLateEntriesRemoveNothing: a follower had uncommitted entries where it
// received a snapshot. A message that replaces them arrives when its log
// continues behind the snapshot. The follower keeps the entries that it has
// acknowledged.
func TestLateEntriesRemoveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := steered(t, 3)
		defer c.close()
		a, _ := lead(t, c.all...)
		same(t, a, c.all...)
		f, end := c.stale(without(c.all, a)[0])
		two := without(c.all, f)
		must(t, a.Transfer(t.Context(), without(two, a)[0].ID()))
		a, epoch := lead(t, without(two, a)...)
		write(t, a, epoch, "x", 20)
		term, _ := a.Leading()
		late := raft.AppendEntriesRequest{RPCHeader: header(a), Term: term, PrevLogEntry: end.Index, PrevLogTerm: end.Term}
		for i := range uint64(3) {
			l := new(raft.Log)
			must(t, c.disks[a.ID()].GetLog(end.Index+1+i, l))
			late.Entries = append(late.Entries, l)
		}
		snapshots(t, two...)
		c.link(c.all...)
		same(t, a, c.all...)
		write(t, a, epoch, "y", 5)
		same(t, a, c.all...)

		disk := c.disks[f.ID()]
		before, err := disk.LastIndex()
		must(t, err)
		var r raft.AppendEntriesResponse
		must(t, c.wires[a.ID()].InmemTransport.AppendEntries(f.self(), inMemory(f.ID()), &late, &r))
		if now, err := disk.LastIndex(); err != nil || now < before || r.LastLog != before {
			t.Errorf("the log of the follower ends at entry %d, and ended at %d", now, before)
		}
		write(t, a, epoch, "z", 5)
		same(t, a, c.all...)
	})
}

// stale restarts a replica, cut off, with entries that no other has. It returns
// the last entry that others have.
func (c *memoryCell) stale(r *Replica) (again *Replica, end raft.Log) {
	c.t.Helper()
	disk := c.disks[r.ID()]
	c.cut(r)
	last, err := disk.LastIndex()
	must(c.t, err)
	must(c.t, disk.GetLog(last, &end))
	for i := range uint64(3) {
		must(c.t, disk.StoreLog(&raft.Log{Index: last + 1 + i, Term: end.Term, Type: end.Type, Data: end.Data}))
	}
	return c.restarted(r), end
}

// join starts an empty replica with a directory that the cell is about to
// admit.
func (c *memoryCell) join(of *Replica, id string) *Replica {
	c.t.Helper()
	o := of.opts
	o.ID, o.Members = id, append(slices.Clone(o.Members), membership.Member{ID: id, RaftAddr: id})
	c.disks[id] = newMemoryDisk(raft.NewInmemStore())
	_, wire := raft.NewInmemTransportWithTimeout(inMemory(id), rafttransport.Timeout)
	c.wires[id] = &memoryWire{InmemTransport: wire}
	r, err := Start(o, datadir.Stores{
		Logs: c.disks[id], Votes: c.disks[id], Snapshots: raft.NewInmemSnapshotStore(),
		Identity: admission.Identity{Cell: o.Cell, ID: id, Directory: id, CellID: of.CellID(), Admitted: 1},
		Save:     func(admission.Identity) error { return nil }, Close: func() error { return nil },
	}, Peers{Transport: c.wires[id]})
	must(c.t, err)
	c.all = append(c.all, r)
	return r
}

// change makes one change of the members.
func (c *memoryCell) change(leader *Replica, what membership.Change, r *Replica) {
	c.t.Helper()
	until(c.t, "a change of the members", func() bool {
		m, err := leader.Membership()
		must(c.t, err)
		return leader.ChangeMember(c.t.Context(), m.Index, what, membership.MemberStatus{Member: membership.Member{ID: r.ID(), RaftAddr: r.ID()}, Directory: r.ID()}) == nil
	})
}

// voters returns the number of voters in a replica's latest configuration.
func voters(r *Replica) (n int) {
	for _, s := range r.servers() {
		if s.Suffrage == raft.Voter {
			n++
		}
	}
	return n
}
