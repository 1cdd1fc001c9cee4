package replica

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

// inMemory is a cell of n replicas with nothing but memory beneath, for virtual
// time.
func inMemory(t *testing.T, n int, heartbeat time.Duration) (all []*Replica, wires map[*Replica]*raft.InmemTransport) {
	t.Helper()
	wires = map[*Replica]*raft.InmemTransport{}
	var members []Member
	var transports []*raft.InmemTransport
	for _, id := range []string{"r1", "r2", "r3", "r4", "r5"}[:n] {
		members = append(members, Member{ID: id, RaftAddr: id})
		_, wire := raft.NewInmemTransportWithTimeout(raft.ServerAddress(id), rpcTimeout)
		transports = append(transports, wire)
	}
	start := time.Now()
	for i, m := range members {
		for j, other := range transports {
			if i != j {
				transports[i].Connect(raft.ServerAddress(members[j].ID), other)
			}
		}
		store := raft.NewInmemStore()
		r, err := Start(Options{
			Cell: "memory", ID: m.ID, Members: members, Logger: zerolog.Nop(),
			MasterLease: heartbeat, HeartbeatTimeout: heartbeat, ElectionTimeout: heartbeat, ClockDrift: 0.01,
			Clock: func() time.Duration { return time.Since(start) },
		}, Parts{
			Logs: store, Votes: store, Snapshots: raft.NewInmemSnapshotStore(), Transport: transports[i],
			NoteFounded: func() error { return nil }, Close: func() error { return nil },
		})
		must(t, err)
		all = append(all, r)
		wires[r] = transports[i]
	}
	return all, wires
}

// TestSilentMasterIsSuspectedInTime: the library alone takes nearly two heartbeat
// time-outs. The median counts, since votes may be split.
func TestSilentMasterIsSuspectedInTime(t *testing.T) {
	const heartbeat = time.Second
	for _, n := range []int{3, 5} {
		var took []time.Duration
		for range 20 {
			synctest.Test(t, func(t *testing.T) {
				all, wires := inMemory(t, n, heartbeat)
				leader := leads(t, all)
				time.Sleep(5 * heartbeat) // virtual
				wires[leader].DisconnectAll()
				for _, r := range without(all, leader) {
					wires[r].Disconnect(raft.ServerAddress(leader.ID()))
				}
				cut := time.Now()
				leads(t, without(all, leader))
				took = append(took, time.Since(cut))
				for _, r := range all {
					must(t, r.Close())
				}
			})
		}
		slices.Sort(took)
		if median := took[len(took)/2]; median < heartbeat*3/4 || median > heartbeat*5/4 {
			t.Errorf("%d replicas: the next leader is there after %v (median of %v), want a heartbeat time-out (%v) and up to a quarter", n, median, took, heartbeat)
		}
	}
}

// leads waits, in virtual time, for one of the replicas to lead.
func leads(t *testing.T, all []*Replica) *Replica {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, r := range all {
			if _, ok := r.Leading(); ok {
				return r
			}
		}
	}
	t.Fatal("nobody leads")
	return nil
}
