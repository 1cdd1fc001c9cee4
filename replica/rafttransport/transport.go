package rafttransport

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/faultpoint"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/raftstore"
)

// Wire carries Raft's messages to the other replicas.
type Wire interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// Options are what a transport needs of its replica.
type Options struct {
	// Leading reports whether the replica leads, and Leads whether it does in a
	// term.
	Leading func() bool
	Leads   func(term uint64) bool
	// Mute is why nothing is sent to followers, nil while it is.
	Mute func() error
	// Clings reports whether the library campaigns and knows a leader all the same,
	// and its term. It may be left out. See Pass.
	Clings func() (term uint64, clings bool)
	// Told is the last entry that followers may be told is committed. This replica
	// has applied it.
	Told func() uint64
	// Acknowledged is called when a follower has acknowledged more entries. It may be
	// left out.
	Acknowledged func()
	// Heard takes what a leader of a term says is committed. last reports that the
	// message goes to the end of that leader's log: it then says all.
	Heard func(term, index uint64, last bool)
	// Forgot is told, once for each, of a follower that has lost what it had
	// acknowledged.
	Forgot func(id raft.ServerID, why error)
	// Refuse is why no entry and no snapshot is taken, nil while they are, and Agrees why a
	// snapshot is not that ends with an entry (raftstore.ErrLostChanges). They may be left out.
	Refuse func() error
	Agrees func(index, term uint64) error
	// Compacted returns where the latest snapshot ends, its index and term, if the
	// snapshot has entry index and the log no longer does. It may be left out.
	Compacted func(index uint64) (end, term uint64, ok bool)
	// Refused is told, once for each in a term, of a follower that refuses so.
	Refused func(id raft.ServerID, why error)
	// Sent is told what became of each snapshot that was sent to a follower that
	// answers. It may be left out.
	Sent func(to raft.ServerID, err error)
}

// Transport is the library's, with the changes that the package comment tells.
// Embedding the interface keeps WithPreVote and WithClose.
type Transport struct {
	Wire
	opts     Options
	acks     *acknowledged // may be nil
	notices  *notices      // may be nil
	messages chan raft.RPC // of the others, as Pass has them
}

// New puts the transport of a replica right.
func New(w Wire, o Options) Transport {
	return Transport{
		Wire: &retrying{Wire: w, leading: o.Leading}, opts: o,
		acks: &acknowledged{forgot: o.Forgot, refused: o.Refused, more: o.Acknowledged}, notices: &notices{late: make(chan struct{}, 1)}, messages: make(chan raft.RPC),
	}
}

// Stored is what a follower, by its server id, has stored in a term of this
// leader's.
func (t Transport) Stored(server string, term uint64) admission.Stored {
	return t.acks.by(server, term)
}

// Refuses is why a follower, by its server id, takes no entries of this leader; nil
// while it does, or that is not known.
func (t Transport) Refuses(server string) error { return t.acks.refuses(raft.ServerID(server)) }

// Elsewhere reports whether a majority of those that vote among servers has
// acknowledged an entry in its own term, where that is the latest in which this
// replica has led. self, which is this replica, is not counted.
func (t Transport) Elsewhere(self raft.ServerID, servers []raft.Server, index, term uint64) bool {
	return t.acks.elsewhere(self, servers, index, term)
}

// Answers counts the messages of this leader that a follower, by its server id, has
// answered in the present term.
func (t Transport) Answers(server string) uint64 { return t.acks.answers(raft.ServerID(server)) }

// Consumer is where the library takes the messages of the other replicas from.
func (t Transport) Consumer() <-chan raft.RPC { return t.messages }

// SetHeartbeatHandler does nothing. The library would handle heartbeats on the
// connection's goroutine, and change the term and the state behind the main
// loop's back; logs can diverge that way (hashicorp/raft #695, open in v1.8.0).
// Without a handler they take the way of all other messages, which the
// Transport interface allows.
func (Transport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntries sends entries or a heartbeat.
func (t Transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := t.check(args); err != nil {
		return err
	}
	least, err := t.acks.sending(id, args.Term)
	if err != nil {
		return err
	}
	t.notices.sending(id, args)
	faultpoint.Hit(faultpoint.EntriesSend)
	if err := t.Wire.AppendEntries(id, target, args, resp); err != nil {
		t.acks.failed(id, args.Term, err)
		return err
	}
	t.notices.answered(id, target, args, resp)
	return t.acks.answered(id, least, args, resp)
}

// AppendEntriesPipeline opens a way to send entries without waiting for
// answers.
func (t Transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.Wire.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return newPipeline(p, func(q *raft.AppendEntriesRequest) error {
		if _, err := t.acks.sending(id, q.Term); err != nil {
			return err
		}
		if err := t.check(q); err != nil {
			return err
		}
		t.notices.sending(id, q)
		faultpoint.Hit(faultpoint.EntriesSend)
		return nil
	}, func(f raft.AppendFuture) {
		if err := f.Error(); err != nil {
			t.acks.failed(id, f.Request().Term, err)
		} else { // one that has begun anew is met by AppendEntries first
			t.notices.answered(id, target, f.Request(), f.Response())
			_ = t.acks.answered(id, 0, f.Request(), f.Response())
		}
	}), nil
}

// InstallSnapshot sends a snapshot, behind a heartbeat: only in the answer to
// that does the follower tell where its log ended before.
func (t Transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, q *raft.InstallSnapshotRequest, r *raft.InstallSnapshotResponse, data io.Reader) error {
	heartbeat := raft.AppendEntriesRequest{RPCHeader: q.RPCHeader, Term: q.Term} // the header says who leads
	if err := t.AppendEntries(id, target, &heartbeat, &raft.AppendEntriesResponse{}); err != nil {
		return err
	}
	err := t.Wire.InstallSnapshot(id, target, q, r, data)
	if err == nil && r.Success && r.Term == q.Term {
		t.acks.took(id, q.Term, q.LastLogIndex)
	}
	if t.opts.Sent != nil {
		t.opts.Sent(id, err)
	}
	return err
}

// IsBroken reports whether a message failed on its way: it got no answer, not even
// one that refuses.
func IsBroken(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// RequestVote asks for a vote.
func (t Transport) RequestVote(id raft.ServerID, target raft.ServerAddress, q *raft.RequestVoteRequest, r *raft.RequestVoteResponse) error {
	faultpoint.Hit(faultpoint.VoteAsk)
	return t.Wire.RequestVote(id, target, q, r)
}

// RequestPreVote asks whether a vote would be given.
func (t Transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, q *raft.RequestPreVoteRequest, r *raft.RequestPreVoteResponse) error {
	return t.Wire.RequestPreVote(id, target, q, r)
}

// TimeoutNow hands mastership over.
func (t Transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, q *raft.TimeoutNowRequest, r *raft.TimeoutNowResponse) error {
	if err := t.acks.lost(id); err != nil {
		return err
	}
	return t.Wire.TimeoutNow(id, target, q, r)
}

// check is the last look at a message before it leaves. While a replica leads
// in a term nobody else changes its log: where it still leads, what the message
// says of the log is from its own time. The library's goroutine that puts
// messages together may come to the next one after that, when entries have been
// replaced, or stand before a snapshot that was installed since and say nothing
// any more of what is committed.
func (t Transport) check(q *raft.AppendEntriesRequest) error {
	if !t.opts.Leads(q.Term) {
		return fmt.Errorf("this replica does not lead in term %d any more", q.Term)
	}
	term := q.PrevLogTerm
	for _, l := range q.Entries {
		if l.Type == raftstore.StandIn { // read by a leader that no longer is one
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
	return t.opts.Mute()
}

// bound lowers what a message says is committed to the last entry that it
// vouches for. Raft has the follower do so (Ongaro and Ousterhout 2014, figure
// 2: "min(leaderCommit, index of last new entry)"); the library's takes the end
// of its own log instead (raft.go, appendEntries). That may be an entry of an
// earlier leader that was never committed, and whose place the message does not
// reach because it was cut off or made before later entries were committed: the
// follower would apply what the others never will. A later message tells the
// rest.
//
// Nor does it say more than followers may tell watchers of (Options.Told). The
// library counts the leader's disk too early; this replica has applied no entry for
// that (see package raftstore).
func (t Transport) bound(q *raft.AppendEntriesRequest) {
	q.LeaderCommitIndex = min(q.LeaderCommitIndex, t.opts.Told(), q.PrevLogEntry+uint64(len(q.Entries)))
}
