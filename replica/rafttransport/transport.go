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

// Options are what a transport needs from its replica.
type Options struct {
	// Leading reports whether the replica leads, Leads whether it does in a
	// term.
	Leading func() bool
	Leads   func(term uint64) bool
	// Mute returns why the replica must not send to followers, or nil if it
	// may.
	Mute func() error
	// IsStuckCandidate reports whether the library campaigns although it knows a leader,
	// and its term. May be nil. See Pass.
	IsStuckCandidate func() (term uint64, clings bool)
	// RefusedVote is called when this replica has refused a candidate its
	// pre-vote. May be nil.
	RefusedVote func(*raft.RequestPreVoteRequest)
	// CommitLimit returns the highest index that messages may report as committed.
	// This replica has applied it.
	CommitLimit func() uint64
	// Acknowledged is called when a follower has acknowledged more entries. May
	// be nil.
	Acknowledged func()
	// Committed receives the commit index that a leader of a term reports. last
	// reports that the leader had nothing more to report: the message does not
	// end before that.
	Committed func(term, index uint64, last bool)
	// Watched reports whether watchers wait for what is committed here. If it
	// is nil, some may.
	Watched func() bool
	// Forgot is called, once for each, with a follower that has lost what it
	// acknowledged.
	Forgot func(id raft.ServerID, why error)
	// Refuse returns why no entries and snapshots are accepted, or nil if they
	// are. Agrees returns why a snapshot that ends with an entry is not
	// accepted (raftstore.ErrLostChanges). Both may be nil.
	Refuse func() error
	Agrees func(index, term uint64) error
	// Compacted returns the index and term of the latest snapshot's end, if the
	// snapshot has entry index and the log no longer does. May be nil.
	Compacted func(index uint64) (end, term uint64, ok bool)
	// Refused is called, once for each in a term, with a follower that refuses
	// in that way.
	Refused func(id raft.ServerID, why error)
	// Fail receives why this replica must end.
	Fail func(error)
	// Sent receives the outcome of each snapshot that was sent to a follower
	// that answers. May be nil.
	Sent func(to raft.ServerID, err error)
}

// Transport is the library's transport with the corrections in the package
// comment. Embedding the interface keeps WithPreVote and WithClose.
type Transport struct {
	Wire
	opts     Options
	acks     *acknowledged // may be nil
	notices  *notices      // may be nil
	messages chan raft.RPC // from the others, as Pass forwards them
}

// New wraps the transport of a replica in the corrections.
func New(w Wire, o Options) Transport {
	return Transport{
		Wire: &retrying{Wire: w, leading: o.Leading}, opts: o,
		acks: &acknowledged{forgot: o.Forgot, refused: o.Refused, more: o.Acknowledged}, notices: &notices{late: make(chan struct{}, 1)}, messages: make(chan raft.RPC),
	}
}

// Stored returns what a follower, by its server id, has stored in a term of
// this leader.
func (t Transport) Stored(server string, term uint64) admission.Stored {
	return t.acks.by(server, term)
}

// Refuses returns why a follower, by its server id, accepts no entries of this
// leader; nil if it does, or that is not known.
func (t Transport) Refuses(server string) error { return t.acks.refuses(raft.ServerID(server)) }

// Elsewhere reports whether a majority of the voters among servers has
// acknowledged an entry in its own term, if that is the latest in which this
// replica has led. self, which is this replica, is not counted.
func (t Transport) Elsewhere(self raft.ServerID, servers []raft.Server, index, term uint64) bool {
	return t.acks.elsewhere(self, servers, index, term)
}

// Target returns the voter among servers, other than self, that can best
// take over from this leader of a term: it has acknowledged most, and still
// answers. It is false if no voter has acknowledged an entry.
func (t Transport) Target(self raft.ServerID, servers []raft.Server, term uint64) (raft.Server, bool) {
	return t.acks.target(self, servers, term)
}

// Answers counts the messages of this leader that a follower, by its server id,
// has answered in the current term.
func (t Transport) Answers(server string) uint64 { return t.acks.answers(raft.ServerID(server)) }

// Consumer returns the channel from which the library reads the other replicas'
// messages.
func (t Transport) Consumer() <-chan raft.RPC { return t.messages }

// SetHeartbeatHandler does nothing. The library would handle heartbeats on the
// connection's goroutine, and change the term and the state while the main loop
// runs. Logs can diverge that way (hashicorp/raft #695, open in v1.8.0).
// Without a handler heartbeats are handled like all other messages, which the
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
	answers := t.acks.answers(id)
	faultpoint.Hit(faultpoint.EntriesSend)
	if err := t.Wire.AppendEntries(id, target, args, resp); err != nil {
		t.acks.failed(id, args.Term, answers, err)
		return err
	}
	t.notices.answered(id, target, args, resp)
	return t.acks.answered(id, least, args, resp)
}

// AppendEntriesPipeline opens a pipeline, which sends entries without waiting
// for answers.
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
			t.acks.failed(id, f.Request().Term, t.acks.answers(id), err)
		} else { // AppendEntries is the first to reach a follower that has restarted
			t.notices.answered(id, target, f.Request(), f.Response())
			_ = t.acks.answered(id, 0, f.Request(), f.Response())
		}
	}), nil
}

// InstallSnapshot sends a snapshot, behind a heartbeat: only the answer to a
// heartbeat reports where the follower's log ended before.
func (t Transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, q *raft.InstallSnapshotRequest, r *raft.InstallSnapshotResponse, data io.Reader) error {
	heartbeat := raft.AppendEntriesRequest{RPCHeader: q.RPCHeader, Term: q.Term} // the header names the leader
	if err := t.AppendEntries(id, target, &heartbeat, &raft.AppendEntriesResponse{}); err != nil {
		return err
	}
	err := t.Wire.InstallSnapshot(id, target, q, r, data)
	if err == nil && r.Success && r.Term == q.Term {
		t.acks.stored(id, q.Term, q.LastLogIndex)
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

// TimeoutNow hands leadership over.
func (t Transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, q *raft.TimeoutNowRequest, r *raft.TimeoutNowResponse) error {
	if err := t.acks.lost(id); err != nil {
		return err
	}
	return t.Wire.TimeoutNow(id, target, q, r)
}

// check checks a message just before it is sent. While a replica leads in a
// term no other replica changes its log. So if it still leads, the message's
// view of the log is from its own term. The check is needed because the
// library's goroutine may compose the next message after that term. By then
// entries may have been replaced. Or the message may lie before a snapshot that
// was installed since, and no longer shows what is committed.
func (t Transport) check(q *raft.AppendEntriesRequest) error {
	if !t.opts.Leads(q.Term) {
		return fmt.Errorf("this replica no longer leads in term %d", q.Term)
	}
	term := q.PrevLogTerm
	for _, l := range q.Entries {
		if l.Type == raftstore.StandIn { // a leader that no longer leads has read it
			return fmt.Errorf("log entry %d is in a snapshot", l.Index)
		}
		if l.Term < term { // it was replaced while it was read
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

// bound lowers a message's commit index to the last entry that the message
// covers. In Raft the follower does so (Ongaro and Ousterhout 2014, figure 2:
// "min(leaderCommit, index of last new entry)"). The library's follower uses
// the end of its own log instead (raft.go, appendEntries). There it may have an
// entry of an earlier leader that was never committed. The message may not
// reach that entry, because it was cut off or made before later entries were
// committed. The follower would then apply what the others never will. A later
// message reports the rest.
//
// The commit index also stays within what followers may report to watchers
// (Options.CommitLimit). The library counts the leader's disk too early; this
// replica has applied no entry because of that (see package raftstore).
//
// A message that reports less than that limit is marked: it has no Leader, which
// followers do not read. It need not be full: the library sends a follower that is
// behind what the log had when it began, and the log may have grown since.
func (t Transport) bound(q *raft.AppendEntriesRequest) {
	q.LeaderCommitIndex = min(q.LeaderCommitIndex, t.opts.CommitLimit(), q.PrevLogEntry+uint64(len(q.Entries)))
	if q.LeaderCommitIndex < t.opts.CommitLimit() {
		*markOf(q) = nil
	}
}

//lint:ignore SA1019 followers do not read the field, so it can be a mark
func markOf(q *raft.AppendEntriesRequest) *[]byte { return &q.Leader }
