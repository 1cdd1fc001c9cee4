package rafttransport

import (
	"errors"
	"io"
	"math"

	"github.com/hashicorp/raft"
)

// Pass forwards the other replicas' messages to the library. It makes the
// library vote by the candidate's log alone, campaign only if this replica
// votes, and discard what disagrees with a snapshot (see install).
//
// Votes. By itself the library votes only for voters of its own latest
// configuration. A replica that lags behind does not know the newest members
// yet. If their votes and its own are the majority, no master would ever be
// elected again. In Raft "servers process incoming RPC requests without
// consulting their current configurations" (Ongaro's thesis, 4.2.2). A
// candidate's log shows what it lacks. A removed candidate disturbs no
// election, because a replica with a leader does not vote (4.2.3).
//
// Campaigns. So the candidate itself must know that it votes. The library
// checks that, except for the message that hands leadership over. For that one
// Pass checks, after waiting until the library has handled all earlier
// messages: an entry that it still stores may remove this replica's vote.
//
// Stuck candidates. One more case needs a correction (found by the simulator;
// v1.8.0 reads the same):
//
//  1. A candidate that was made to campaign may receive a message from the
//     winner of that very term. It then has that replica as its leader, and
//     stays a candidate.
//  2. If that leader is lost before its next message, the candidate refuses all
//     votes because it has a leader, and never checks whether it still has one.
//  3. If its own log is behind and its vote is needed, there would be no master
//     until it is restarted.
//  4. So a candidate that is asked for a pre-vote, and knows a leader, is first
//     made to forget that leader (see stepDown).
//
// servers returns the servers of the library's latest configuration, committed
// or not. Pass returns when quit is closed.
func (t Transport) Pass(self raft.ServerID, servers func() []raft.Server, quit <-chan struct{}) {
	from := t.Wire.Consumer()
	for {
		select {
		case m := <-from:
			switch q := m.Command.(type) {
			case *raft.AppendEntriesRequest:
				if err := t.refused(); err != nil {
					refuse(m, err)
					continue
				}
				t.opts.Committed(q.Term, q.LeaderCommitIndex, len(*markOf(q)) > 0 && len(q.Entries) < MaxAppendEntries) // an earlier release marks none
				m.Command = t.beyondSnapshot(q)
				if len(q.Entries) > 0 && t.opts.Watched != nil {
					m = t.quiet(m, quit)
				}
			case *raft.InstallSnapshotRequest:
				if err := t.disagrees(q); err != nil {
					go refuse(m, err)
					continue
				}
				if !t.install(m, q, quit) {
					return
				}
				continue
			case *raft.RequestPreVoteRequest:
				if !t.stepDown(quit) {
					return
				}
				if t.opts.RefusedVote != nil {
					m = t.reportRefusal(m, q, quit)
				}
			case *raft.TimeoutNowRequest:
				if !t.caughtUp(quit) {
					return
				}
				if !votes(servers(), self) {
					m.Respond(&raft.TimeoutNowResponse{}, ErrNoVote)
					continue
				}
			}
			m.Command = asVoter(m.Command, servers)
			select {
			case t.messages <- m:
			case <-quit:
				return
			}
		case <-quit:
			return
		}
	}
}

// refused returns why no entries are accepted; nil if they are.
func (t Transport) refused() error {
	if t.opts.Refuse == nil {
		return nil
	}
	return t.opts.Refuse()
}

// disagrees returns why a snapshot is not accepted; nil if it is.
func (t Transport) disagrees(q *raft.InstallSnapshotRequest) error {
	err := t.refused()
	if err == nil && t.opts.Agrees != nil {
		err = t.opts.Agrees(q.LastLogIndex, q.LastLogTerm)
	}
	return err
}

// stepDown makes a library that is stuck as a candidate forget its leader. It
// reports false if quit is closed first. It sends what a leader of this term
// would, without a name and behind an entry that no log has. In the first round
// of a requested campaign the library stays a candidate and forgets the leader,
// which is enough for its vote. In a later round it becomes a follower.
func (t Transport) stepDown(quit <-chan struct{}) bool {
	if t.opts.IsStuckCandidate == nil {
		return true
	}
	term, clings := t.opts.IsStuckCandidate()
	return !clings || t.Follow(term, quit)
}

// reportRefusal returns a message for the library; a refusal is reported.
func (t Transport) reportRefusal(m raft.RPC, q *raft.RequestPreVoteRequest, quit <-chan struct{}) raft.RPC {
	return answered(m, quit, func(a raft.RPCResponse) {
		if r, ok := a.Response.(*raft.RequestPreVoteResponse); ok && !r.Granted {
			t.opts.RefusedVote(q)
		}
	})
}

// Follow makes a library that campaigns in a term a follower without a leader.
// It reports false if quit is closed first.
func (t Transport) Follow(term uint64, quit <-chan struct{}) bool {
	nobody := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}, Term: term, PrevLogEntry: math.MaxUint64, PrevLogTerm: term,
	}
	_, ok := t.ask(raft.RPC{Command: nobody}, quit)
	return ok
}

// refuse answers a message with an error, as if it had not arrived. It reads a
// snapshot behind the message to its end, so that the next message is found.
func refuse(m raft.RPC, why error) {
	if m.Reader != nil {
		_, _ = io.Copy(io.Discard, m.Reader)
	}
	m.Respond(nil, why)
}

// caughtUp waits until the library has handled all earlier messages, and
// reports false if quit is closed first. It sends a message that the library
// refuses in turn because of its header, and so without any effect.
func (t Transport) caughtUp(quit <-chan struct{}) bool {
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax + 1}
	_, ok := t.ask(raft.RPC{Command: &raft.AppendEntriesRequest{RPCHeader: header}}, quit)
	return ok
}

// ask hands a message to the library and returns its answer, or false if quit
// is closed first.
func (t Transport) ask(m raft.RPC, quit <-chan struct{}) (raft.RPCResponse, bool) {
	answer := make(chan raft.RPCResponse, 1)
	m.RespChan = answer
	select {
	case t.messages <- m:
	case <-quit:
		return raft.RPCResponse{}, false
	}
	select {
	case a := <-answer:
		return a, true
	case <-quit:
		return raft.RPCResponse{}, false
	}
}

// ErrNoVote is the answer of a replica that was asked to campaign and must not.
var ErrNoVote = errors.New("this replica does not vote and cannot lead")

// asVoter replaces a candidate that does not vote in the library's
// configuration by the id of a voter. The library uses the id only to look up
// the voter; it gives votes to an address.
func asVoter(command any, servers func() []raft.Server) any {
	switch q := command.(type) {
	case *raft.RequestVoteRequest:
		asked := *q
		asked.ID = known(servers(), q.ID)
		return &asked
	case *raft.RequestPreVoteRequest:
		asked := *q
		asked.ID = known(servers(), q.ID)
		return &asked
	}
	return command
}

// known returns the candidate if it votes in the library's latest
// configuration, else some other voter, if there is one.
func known(servers []raft.Server, candidate []byte) []byte {
	other := candidate
	for _, s := range servers {
		switch {
		case s.Suffrage != raft.Voter:
		case string(s.ID) == string(candidate):
			return candidate
		default:
			other = []byte(s.ID)
		}
	}
	return other
}

// votes reports whether a server votes in the library's latest configuration.
func votes(servers []raft.Server, self raft.ServerID) bool {
	for _, s := range servers {
		if s.ID == self {
			return s.Suffrage == raft.Voter
		}
	}
	return false
}
