package membership

import "errors"

// Member is one replica of the cell, with the addresses at which others reach
// it.
type Member struct {
	ID       string
	RaftAddr string // host:port that the others dial
	APIURL   string // base URL of its HTTP API
}

// MemberStatus is a member's entry in the replicated membership. While one
// directory replaces another, two entries have the same name.
type MemberStatus struct {
	Member
	Directory string
	Voter     bool
	// At is its address in Raft's configuration, which is tried first. It may
	// lag behind RaftAddr.
	At string
	// Answers counts the Raft messages that this directory has answered to this
	// leader, in the leader's term.
	Answers uint64
	// Refuses is why it takes no entries from this leader; nil if it does, or
	// if unknown.
	Refuses error
}

// Membership is a configuration of the cell.
type Membership struct {
	Index   uint64         // its log index
	Members []MemberStatus // sorted by name
	// Changing is set while the outcome of a change begun here is unknown: the
	// change may still enter the log.
	Changing bool
}

// Change is a kind of change of one member.
type Change string

// The kinds of change.
const (
	AddNonvoter  Change = "add as a nonvoter"
	MakeVoter    Change = "make a voter"
	RemoveMember Change = "remove"
	DemoteMember Change = "take the vote of"
	MoveMember   Change = "move" // to its RaftAddr
)

// ErrBusy reports that a change of the membership had no effect, because
// another is not committed yet or was made in between.
var ErrBusy = errors.New("another change of the membership is in progress")
