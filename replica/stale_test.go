package replica

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/raftstore"
)

// deposed gives a stopped replica the entries that a deposed leader may have:
// at the end of its log, and on no other replica. It returns their first index.
func deposed(t *testing.T, r *Replica, n uint64, change func(l *raft.Log)) uint64 {
	t.Helper()
	p := storesOf(t, r.opts)
	last, err := p.Logs.LastIndex()
	must(t, err)
	var end raft.Log
	must(t, p.Logs.GetLog(last, &end))
	for i := range n {
		l := raft.Log{Index: last + 1 + i, Term: end.Term, Type: end.Type, Data: end.Data}
		change(&l)
		must(t, p.Logs.StoreLog(&l))
	}
	must(t, p.Close())
	return last + 1
}

// beyond starts a cell of three with logs that are cut where the test needs it.
// One replica is stopped, and the others are in a later term.
func beyond(t *testing.T, n uint64, change func(l *raft.Log)) (away *Replica, two []*Replica, leader *Replica, epoch, stale uint64) {
	t.Helper()
	opts := options(t, 3)
	for i := range opts {
		opts[i].SnapshotThreshold, opts[i].TrailingLogs = 1<<20, 1<<20
	}
	all := startAll(t, opts...)
	leader, epoch = lead(t, all...)
	write(t, leader, epoch, "a", 20)
	same(t, leader, all...)
	away = without(all, leader)[0]
	stop(t, away)
	stale = deposed(t, away, n, change)
	two = without(all, away)
	must(t, leader.Transfer(t.Context(), without(two, leader)[0].ID()))
	leader, epoch = lead(t, without(two, leader)...)
	return away, two, leader, epoch, stale
}

// TestOnlyVoterEndsWithinStaleEntries: the follower installs the snapshot, and
// keeps entries of an earlier leader where it ends. Without the follower nothing
// can be committed, so that no later snapshot helps.
func TestOnlyVoterEndsWithinStaleEntries(t *testing.T) {
	t.Parallel()
	for _, n := range []uint64{4, 7} { // the snapshot ends at the last of them, or before
		t.Run(fmt.Sprintf("%d stale entries", n), func(t *testing.T) {
			t.Parallel()
			away, two, leader, epoch, stale := beyond(t, n, func(*raft.Log) {})
			write(t, leader, epoch, "b", 1)
			same(t, leader, two...)
			snapshots(t, two...)
			if metas, _ := leader.stores.Snapshots.List(); metas[0].Index < stale || metas[0].Index >= stale+n {
				t.Fatalf("the snapshot ends at %d, and the stale entries are %d from %d on: the test shows nothing", metas[0].Index, n, stale)
			}
			for _, r := range two {
				stop(t, r)
			}
			// A replica that is opened again has no cut entries in its cache.
			back := start(t, away.opts)
			leader, epoch = lead(t, start(t, leader.opts), back)
			write(t, leader, epoch, "c", 1)
			same(t, leader, back)
			stop(t, back)
			same(t, leader, start(t, away.opts))
		})
	}
}

// TestStaleConfigurationBeforeASnapshot: it does not prevent changes.
func TestStaleConfigurationBeforeASnapshot(t *testing.T) {
	t.Parallel()
	away, two, leader, epoch, _ := beyond(t, 1, func(l *raft.Log) {
		l.Type, l.Data = raft.LogConfiguration, raft.EncodeConfiguration(raft.Configuration{})
	})
	write(t, leader, epoch, "b", 2*raftstore.CacheSize)
	same(t, leader, two...)
	snapshots(t, two...)
	write(t, leader, epoch, "c", 5)
	back := start(t, away.opts)
	same(t, leader, back)
	theirs, err := leader.Membership()
	must(t, err)
	if m, err := back.Membership(); err != nil || m.Index != theirs.Index {
		t.Errorf("the last configuration is at %d (%v), and at %d for the leader", m.Index, err, theirs.Index)
	}
	must(t, leader.Transfer(t.Context(), back.ID()))
	next, _ := lead(t, back)
	m, err := next.Membership()
	must(t, err)
	must(t, next.ChangeMember(t.Context(), m.Index, membership.AddNonvoter, membership.MemberStatus{Member: membership.Member{ID: leader.ID(), RaftAddr: "127.0.0.1:9"}, Directory: "new"}))
}
