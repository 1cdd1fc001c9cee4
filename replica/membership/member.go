package membership

import "errors"

// Member is one replica of the cell as the others reach it.
type Member struct {
	ID       string
	RaftAddr string // host:port that the others dial
	APIURL   string // base URL of its HTTP API
}

// MemberStatus is a member's place in the replicated membership. While a
// directory takes the place of another there are two of one name.
type MemberStatus struct {
	Member
	Directory string
	Voter     bool
	// At is the address that Raft's configuration has for it, which may lag behind
	// RaftAddr: that is where it is sought first.
	At string
	// Answers counts the messages of Raft's that this very directory has answered to
	// this leader, in its term.
	Answers uint64
	// Refuses is why it takes no entries of this leader; nil while it does, or that is
	// not known.
	Refuses error
}

// Membership is a configuration of the cell.
type Membership struct {
	Index   uint64         // its place in the log
	Members []MemberStatus // by name
	// Changing says that a change was begun here of which the outcome is not known yet:
	// it may still enter the log.
	Changing bool
}

// Change is a change of the membership, of one member.
type Change string

// The changes that there are.
const (
	AddNonvoter  Change = "add as a nonvoter"
	MakeVoter    Change = "make a voter"
	RemoveMember Change = "remove"
	DemoteMember Change = "take the vote of"
	MoveMember   Change = "move" // to its RaftAddr
)

// ErrBusy says that a change of the membership had no effect, because another
// is not committed yet or has come between.
var ErrBusy = errors.New("another change of the membership is under way")
