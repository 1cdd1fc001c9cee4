package rafttransport

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/raftstore"
)

// install handles a snapshot as Raft does (Ongaro and Ousterhout 2014, figure
// 13). It reports false if quit is closed first, or the replica must end. The
// library leaves out two steps.
//
// Step 6: "If existing log entry has same index and term as snapshot's last
// included entry, retain log entries following it and reply." The library
// installs the snapshot anyway. Then its state and its configuration come from
// the snapshot, even if the log has later configurations behind it. So a late
// copy of a message that was installed before can make two masters, each with a
// majority of its own configuration.
//
// Step 7: "Discard the entire log." The library keeps it, with these
// consequences:
//
//  1. Entries of an earlier leader that were never committed stay before the
//     snapshot's end or around it.
//  2. The library uses the last of them when it votes, refuses messages that
//     continue from the snapshot because of them, and reads them once it leads.
//  3. A late message that disagrees with one of them removes everything behind
//     it, including acknowledged entries.
//
// The library does discard what disagrees with an entry that it is sent. So it
// is sent the entry at which the snapshot ends, or rather a stand-in for it.
// raftstore discards the rest on seeing the stand-in.
//
// The library refuses the stand-in if its term has ended since it took the
// snapshot, and keeps the log. Two cases (the first was found by the simulator):
//
//  1. A candidate that was made to campaign stays one beside the leader of its term
//     (see Pass), and an answer to its campaign may have a later term. It gets no
//     snapshot: the leader tries again.
//  2. A follower is paused for so long, just there, that it begins to campaign. Then
//     the replica ends, and discards the log at its next start.
func (t Transport) install(m raft.RPC, q *raft.InstallSnapshotRequest, quit <-chan struct{}) bool {
	has, ok := t.has(q, quit)
	if !ok {
		return false
	}
	if has != nil {
		go retain(m, has)
		return true
	}
	if t.opts.IsStuckCandidate != nil {
		if _, clings := t.opts.IsStuckCandidate(); clings {
			go refuse(m, ErrCampaigns)
			return true
		}
	}
	answer, ok := t.ask(raft.RPC{Command: q, Reader: m.Reader}, quit)
	if !ok {
		return false
	}
	if r, _ := answer.Response.(*raft.InstallSnapshotResponse); r != nil && r.Success {
		end := &raft.Log{Index: q.LastLogIndex, Term: q.LastLogTerm, Type: raftstore.StandIn}
		discard := &raft.AppendEntriesRequest{RPCHeader: q.RPCHeader, Term: q.Term, Entries: []*raft.Log{end}}
		discarded, ok := t.ask(raft.RPC{Command: discard}, quit)
		if !ok {
			return false
		}
		// A log with committed entries is kept: then the replica refuses more.
		if r, _ := discarded.Response.(*raft.AppendEntriesResponse); (r == nil || !r.Success) && t.refused() == nil {
			t.opts.Fail(fmt.Errorf("the log before the installed snapshot up to entry %d could not be discarded, which the next start does", q.LastLogIndex))
			return false
		}
	}
	m.Respond(answer.Response, answer.Error)
	return true
}

// ErrCampaigns is the answer to a snapshot for a replica that was made to
// campaign.
var ErrCampaigns = errors.New("this replica still campaigns, and installs no snapshot meanwhile")

// has asks the library whether it has the entry at which a snapshot ends. A
// message without entries that continues from that entry succeeds in two cases:
// the log has the entry, or the latest snapshot ends with it or behind it. The
// answer is nil in any other case; ok is false if quit is closed first.
func (t Transport) has(q *raft.InstallSnapshotRequest, quit <-chan struct{}) (r *raft.AppendEntriesResponse, ok bool) {
	behind := &raft.AppendEntriesRequest{RPCHeader: q.RPCHeader, Term: q.Term, PrevLogEntry: q.LastLogIndex, PrevLogTerm: q.LastLogTerm}
	answer, ok := t.ask(raft.RPC{Command: t.beyondSnapshot(behind)}, quit)
	if r, _ = answer.Response.(*raft.AppendEntriesResponse); r != nil && !r.Success {
		r = nil
	}
	return r, ok
}

// retain answers a snapshot that is not needed, after reading it to its end. A
// sender that has given it up may never send the rest.
func retain(m raft.RPC, has *raft.AppendEntriesResponse) {
	if m.Reader != nil {
		_, _ = io.Copy(io.Discard, m.Reader)
	}
	m.Respond(&raft.InstallSnapshotResponse{RPCHeader: has.RPCHeader, Term: has.Term, Success: true}, nil)
}
