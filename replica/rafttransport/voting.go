package rafttransport

import (
	"errors"
	"io"
	"math"

	"github.com/hashicorp/raft"
)

// Pass hands the other replicas' messages to the library. It has that judge a
// candidate by its log alone, campaign only where this replica votes, and
// discard what disagrees with a snapshot (see install).
//
// The library votes only for who votes in its own latest configuration. A
// replica that lags behind does not know the newest members yet, and where
// their votes and its own are the majority, no master would ever be elected
// again. In Raft "servers process incoming RPC requests without consulting
// their current configurations" (Ongaro's thesis, 4.2.2): what a candidate
// lacks its log tells, and who was removed disturbs nobody, since a replica
// that hears a leader does not vote (4.2.3).
//
// So it is the candidate that has to know that it votes. The library looks at
// that, but for the message that hands the lead over to it: for that one, Pass
// looks, and first waits until the library is through with what came before.
// An entry that it still stores may be the one that takes this vote.
//
// A candidate that was told to campaign, and hears meanwhile from who has won that
// very term, takes that one for its leader and stays a candidate. Where that leader
// is lost before its next message, the candidate refuses its vote to everybody, since
// it has a leader, and never looks whether it still has: where its own log is behind
// and its vote is needed, there would be no master until it is restarted (found by
// the simulator; v1.8.0 reads the same). So a candidate that is asked for its
// vote, and knows a leader, is first made to forget that one (see stepDown).
//
// servers are those of the library's latest configuration, committed or not.
// Pass returns when quit is closed.
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
				t.opts.Heard(q.Term, q.LeaderCommitIndex, len(q.Entries) < MaxAppendEntries)
				m.Command = t.beyondSnapshot(q)
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

// refused is why no entry is taken; nil while they are.
func (t Transport) refused() error {
	if t.opts.Refuse == nil {
		return nil
	}
	return t.opts.Refuse()
}

// disagrees is why a snapshot is not taken; nil where it is.
func (t Transport) disagrees(q *raft.InstallSnapshotRequest) error {
	err := t.refused()
	if err == nil && t.opts.Agrees != nil {
		err = t.opts.Agrees(q.LastLogIndex, q.LastLogTerm)
	}
	return err
}

// stepDown has a library that is stuck as a candidate follow nobody, and reports
// false where quit is closed first. It sends what a leader of this term would, with
// no name and behind an entry that nobody has. In the first round after it was told
// to campaign the library stays a candidate and forgets the leader, which is enough
// for its vote; in a later one it becomes a follower.
func (t Transport) stepDown(quit <-chan struct{}) bool {
	if t.opts.Clings == nil {
		return true
	}
	term, clings := t.opts.Clings()
	if !clings {
		return true
	}
	nobody := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}, Term: term, PrevLogEntry: math.MaxUint64, PrevLogTerm: term,
	}
	_, ok := t.ask(raft.RPC{Command: nobody}, quit)
	return ok
}

// refuse answers a message with an error, as if it had not arrived. A snapshot
// behind it is read past, so that the next message is found.
func refuse(m raft.RPC, why error) {
	if m.Reader != nil {
		_, _ = io.Copy(io.Discard, m.Reader)
	}
	m.Respond(nil, why)
}

// caughtUp waits until the library is through with all earlier messages, and
// reports false where quit is closed first. It sends one that the library
// refuses at its header, and so does nothing with, in its turn.
func (t Transport) caughtUp(quit <-chan struct{}) bool {
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax + 1}
	_, ok := t.ask(raft.RPC{Command: &raft.AppendEntriesRequest{RPCHeader: header}}, quit)
	return ok
}

// ask hands a message to the library and returns its answer, or false where
// quit is closed first.
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

// ErrNoVote is the answer of a replica that was told to campaign, and must not.
var ErrNoVote = errors.New("this replica has no vote, and can't lead")

// asVoter is the message, with the id of a voter in the place of a candidate's
// that does not vote in the library's configuration. Nothing but that look-up
// reads it: votes are given to an address.
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

// known is the candidate where it votes in the library's latest configuration,
// else some other voter, if there is one.
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
