package rafttransport

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
)

// These tests show how the library by itself handles late copies of messages.
// They are the schedules of docs/found.md. A failing test means that the
// library has fixed its fault.

// uncorrected is the library alone, which follows r2.
type uncorrected struct {
	*raft.Raft
	t    *testing.T
	wire alone
}

// asLibrary runs a test of a follower without corrections.
func asLibrary(t *testing.T, test func(t *testing.T, f uncorrected)) {
	synctest.Test(t, func(t *testing.T) {
		_, inmem := raft.NewInmemTransport("r1")
		wire := alone{inmem, make(chan raft.RPC)}
		f := uncorrected{library(t, wire), t, wire}
		defer func() { must(t, f.Shutdown().Error()) }()
		test(t, f)
	})
}

func (f uncorrected) sent(m raft.RPC) {
	f.t.Helper()
	answer := make(chan raft.RPCResponse, 1)
	m.RespChan = answer
	f.wire.messages <- m
	must(f.t, (<-answer).Error)
}

var fromR2 = raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("r2"), Addr: []byte("r2")}

// entries sends entries behind a given entry, committed up to an index.
func (f uncorrected) entries(term, prev, prevTerm, committed uint64, kinds ...raft.LogType) {
	f.t.Helper()
	q := raft.AppendEntriesRequest{RPCHeader: fromR2, Term: term, PrevLogEntry: prev, PrevLogTerm: prevTerm, LeaderCommitIndex: committed}
	for i, kind := range kinds {
		l := raft.Log{Index: prev + 1 + uint64(i), Term: term, Type: kind}
		if kind == raft.LogConfiguration {
			l.Data = raft.EncodeConfiguration(servers("r1", "r2", "r3", "r4", "r5"))
		}
		q.Entries = append(q.Entries, &l)
	}
	f.sent(raft.RPC{Command: &q})
}

// snapshot sends a snapshot from r2 that ends at entry 10, with three servers.
func (f uncorrected) snapshot(term uint64) {
	f.t.Helper()
	const empty = "\x90" // a MockFSM without entries
	f.sent(raft.RPC{Reader: strings.NewReader(empty), Command: &raft.InstallSnapshotRequest{
		RPCHeader: fromR2, SnapshotVersion: raft.SnapshotVersionMax, Term: term, LastLogIndex: 10, LastLogTerm: term,
		Configuration: raft.EncodeConfiguration(servers("r1", "r2", "r3")), ConfigurationIndex: 1, Size: int64(len(empty)),
	}})
}

func servers(ids ...raft.ServerID) (c raft.Configuration) {
	for _, id := range ids {
		c.Servers = append(c.Servers, raft.Server{ID: id, Address: raft.ServerAddress(id)})
	}
	return c
}

// TestLibraryGoesBackToASnapshot: the library installs a snapshot again
// although it has its end. It then uses the snapshot's configuration, though
// its log has a later one.
func TestLibraryGoesBackToASnapshot(t *testing.T) {
	asLibrary(t, func(t *testing.T, f uncorrected) {
		state := func() (applied uint64, n int) {
			return f.AppliedIndex(), len(f.GetConfiguration().Configuration().Servers)
		}
		f.snapshot(2)
		f.entries(2, 10, 2, 12, raft.LogCommand, raft.LogConfiguration)
		if applied, n := state(); applied != 12 || n != 5 {
			t.Fatalf("it has applied entry %d and has %d servers", applied, n)
		}
		f.snapshot(2) // the copy
		if applied, n := state(); applied != 10 || n != 3 || f.LastIndex() != 12 {
			t.Errorf("it has applied entry %d of %d and has %d servers: the library is not as it was", applied, f.LastIndex(), n)
		}
		f.entries(2, 12, 2, 13, raft.LogCommand)
		if applied, n := state(); applied != 13 || n != 3 {
			t.Errorf("it has applied entry %d and has %d servers: the library is not as it was", applied, n)
		}
	})
}

// TestLibraryRemovesEntriesBehindASnapshot: the library keeps uncommitted
// entries before a snapshot. For a message that disagrees with them it removes
// everything behind them, including the snapshot's end.
func TestLibraryRemovesEntriesBehindASnapshot(t *testing.T) {
	asLibrary(t, func(t *testing.T, f uncorrected) {
		f.entries(2, 1, 1, 0, raft.LogCommand, raft.LogCommand) // stale ones
		f.snapshot(3)
		f.entries(3, 10, 3, 12, raft.LogCommand, raft.LogCommand)
		if f.LastIndex() != 12 {
			t.Fatalf("its log ends at %d", f.LastIndex())
		}
		f.entries(3, 1, 1, 0, raft.LogCommand) // late
		if f.LastIndex() == 12 {
			t.Error("it has what it had acknowledged: the library is not as it was")
		}
	})
}
