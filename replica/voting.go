package replica

import (
	"errors"

	"github.com/hashicorp/raft"
)

// passMessages hands the other replicas' messages to the library. It has that judge a
// candidate by its log alone, and campaign only where this replica votes.
//
// The library votes only for who votes in its own latest configuration. A replica that
// lags behind does not know the newest members yet, and where their votes and its own
// are the majority, no master would ever be elected again. In Raft "servers process
// incoming RPC requests without consulting their current configurations" (Ongaro's
// thesis, 4.2.2): what a candidate lacks its log tells, and who was removed disturbs
// nobody, since a replica that hears a leader does not vote (4.2.3).
//
// So it is the candidate that has to know that it votes. The library looks at that, but
// for the message that hands the lead over to it.
func (r *Replica) passMessages(from <-chan raft.RPC, to chan<- raft.RPC) {
	for {
		select {
		case m := <-from:
			if _, campaign := m.Command.(*raft.TimeoutNowRequest); campaign && !r.votes() {
				m.Respond(&raft.TimeoutNowResponse{}, errNoVoter)
				continue
			}
			m.Command = r.asVoter(m.Command)
			select {
			case to <- m:
			case <-r.quit:
				return
			}
		case <-r.quit:
			return
		}
	}
}

var errNoVoter = errors.New("this replica has no vote, and can't lead")

// asVoter is the message, with the id of a voter in the place of a candidate's that
// does not vote in the library's configuration. Nothing but that look-up reads it:
// votes are given to an address.
func (r *Replica) asVoter(command any) any {
	switch q := command.(type) {
	case *raft.RequestVoteRequest:
		asked := *q
		asked.ID = r.known(q.ID)
		return &asked
	case *raft.RequestPreVoteRequest:
		asked := *q
		asked.ID = r.known(q.ID)
		return &asked
	}
	return command
}

// known is the candidate where it votes in the library's latest configuration, else
// some other voter, if there is one.
func (r *Replica) known(candidate []byte) []byte {
	other := candidate
	for _, s := range r.servers() {
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

// votes reports whether this replica votes in the library's latest configuration.
func (r *Replica) votes() bool {
	for _, s := range r.servers() {
		if s.ID == r.self() {
			return s.Suffrage == raft.Voter
		}
	}
	return false
}

// servers are those of the library's latest configuration, committed or not.
func (r *Replica) servers() []raft.Server { return r.raft.GetConfiguration().Configuration().Servers }
