package master

import (
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// Caller is who a call is made for, and what it asks for. The zero value is the
// cell itself, in what a master does unasked.
type Caller struct {
	// Principal is who the caller has proved to be, and How; empty for nobody
	// known. It goes into the log with what is done for it (state.Command).
	Principal, How string
	// Ends is when that counts no more; zero for never.
	Ends time.Time
	// Secret is the SHA-256 of the token that the caller brings; nil without one.
	// Whose it is, is found out where the call is judged.
	Secret *[32]byte
	// Ask is what the call asks for, and Also what it asks for besides. For is about
	// the session on behalf of which it is made, if it is.
	Ask, For Ask
	Also     []Ask

	// Told, where it is not nil, is told what judging the call has found out.
	Told *Told
	// Admitted, where it is not nil, is called when a change has been judged and
	// before it has any effect; its error refuses the change. Reads don't call it.
	Admitted func() error
	// Adopts, where it is not nil, is called before the call makes a session the
	// caller's; its error refuses the call.
	Adopts func() error

	// WhileOff, where it is not nil, refuses the call while access is off.
	WhileOff error

	// Timeline, where it is not nil, takes what the log does for the call.
	Timeline *Timeline

	adopts string // session that is to become the caller's
	// RemoteAddr is where the call came from, as host and port. Nothing is
	// decided by it.
	RemoteAddr string
}

// Told is what judging a call has found out about who makes it.
type Told struct {
	Principal, How string // as those of Caller; empty before it was judged, and while access is off
	Others         bool   // the session that the call is about is another principal's
	Adopted        string // session that the call has made the principal's; empty for none
}

// The requests of the calls, as values: what the body or the query of a call
// said, what its URL names, and its caller. They have passed the Validate of
// what they embed.

// OpenSessionRequest asks for a session.
type OpenSessionRequest struct {
	Caller Caller
	Key    string // of idempotency; empty for none
	lockapi.SessionRequest
}

// CloseSessionRequest asks for a session's end.
type CloseSessionRequest struct {
	Caller  Caller
	Session string
}

// KeepaliveRequest asks to extend a session.
type KeepaliveRequest struct {
	Caller  Caller
	Session string
	lockapi.KeepaliveRequest
}

// AcquireRequest asks for a lock.
type AcquireRequest struct {
	Caller Caller
	Path   string
	lockapi.LockRequest
}

// ReleaseRequest asks for the end of a hold or a wait.
type ReleaseRequest struct {
	Caller                Caller
	Path, Session, Handle string
	Token                 uint64 // that of the only grant to be ended; 0 for any
	Forced                bool   // somebody else than the holder's program asks for it, and it is told so
}

// ReplaceRequest asks for another directory in a member's place.
type ReplaceRequest struct {
	Caller Caller
	ID     string
	lockapi.ReplaceMemberRequest
}

// AddRequest asks for another member.
type AddRequest struct {
	Caller Caller
	lockapi.AddMemberRequest
}

// SetRequest asks for a member to be changed.
type SetRequest struct {
	Caller Caller
	ID     string
	lockapi.SetMemberRequest
}

// RemoveRequest asks for a member to go.
type RemoveRequest struct {
	Caller Caller
	ID     string
	lockapi.RemoveMemberRequest
}

// TransferRequest asks for another master.
type TransferRequest struct {
	Caller Caller
	To     string // a replica's id; empty for any
}

// Read is who asks and how. A stale read is answered from this replica's own
// state, master or not; any other is linearizable.
type Read struct {
	Caller Caller
	Stale  bool
	// AsOf, where it is not nil, takes the revision of the state that the answer is
	// of, errors that the state gave included: all changes up to it, and none after,
	// are in the answer.
	AsOf *uint64
}

// of notes the state that is read.
func (r Read) of(s *state.State) {
	if r.AsOf != nil {
		*r.AsOf = s.Revision
	}
}

// SessionQuery asks for one session.
type SessionQuery struct {
	Read
	ID string
}

// SessionsQuery asks for a page of sessions, in the order of their ids.
type SessionsQuery struct {
	Read
	After string // the id behind which it begins
	Limit int
}

// LockQuery asks for one lock.
type LockQuery struct {
	Read
	Path    string
	Waiters int // so many of the first positions in its queue
}

// LocksQuery asks for a page of locks, in bytewise order of their paths.
type LocksQuery struct {
	Read
	Prefix string
	After  string // the path behind which it begins
	Limit  int
}

// SequencerQuery asks whether a sequencer's grant is held.
type SequencerQuery struct {
	Read
	lockapi.Sequencer
}
