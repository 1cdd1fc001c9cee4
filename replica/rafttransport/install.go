package rafttransport

import (
	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/raftstore"
)

// install hands a snapshot to the library, and has it discard the entries that
// disagree with the snapshot, before the leader is told that it is installed.
// It reports false where quit is closed first.
//
// A follower may have entries of an earlier leader's around the end of the
// snapshot, which were never committed. Raft has it discard them: "If existing
// log entry has same index and term as snapshot's last included entry, retain
// log entries following it [...] Discard the entire log" (Ongaro and Ousterhout
// 2014, figure 13). The library keeps them, goes by their last one, not by the
// snapshot, where it votes, and refuses what goes on from the snapshot. It would
// be sent that again, for ever where nothing new can be committed without it
// (found by the simulator).
//
// What the library does discard is whatever disagrees with an entry that it is
// sent. So it is sent the one at which the snapshot ends, or rather a stand-in,
// which raftstore does not store.
func (t Transport) install(m raft.RPC, q *raft.InstallSnapshotRequest, quit <-chan struct{}) bool {
	answer, ok := t.ask(raft.RPC{Command: q, Reader: m.Reader}, quit)
	if !ok {
		return false
	}
	if r, _ := answer.Response.(*raft.InstallSnapshotResponse); r != nil && r.Success {
		end := &raft.Log{Index: q.LastLogIndex, Term: q.LastLogTerm, Type: raftstore.StandIn}
		discard := &raft.AppendEntriesRequest{RPCHeader: q.RPCHeader, Term: q.Term, Entries: []*raft.Log{end}}
		if _, ok := t.ask(raft.RPC{Command: discard}, quit); !ok {
			return false
		}
	}
	m.Respond(answer.Response, answer.Error)
	return true
}
