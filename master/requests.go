package master

import (
	"context"
	"time"

	"github.com/stoutlock/stout/master/internal/batch"
	"github.com/stoutlock/stout/replica/state"
)

// Timeline notes what the log did for a call that is traced.
type Timeline = batch.Timeline

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
	// Admitted, where it is not nil, is called with what judging a change has found
	// out, before the change has any effect; its error refuses the change. Reads don't
	// call it.
	Admitted func(Told) error
	// Adopts, where it is not nil, is called so before the call makes a session the
	// caller's; its error refuses the call.
	Adopts func(Told) error

	// WhileOff, where it is not nil, refuses the call while access is off.
	WhileOff error

	// Turns, where it is not nil, gives turns to heavy calls.
	Turns Turns
	// Timeline, where it is not nil, takes what the log does for the call.
	Timeline *Timeline

	adopts string // session that is to become the caller's
	// RemoteAddr is where the call came from, as host and port. Nothing is
	// decided by it.
	RemoteAddr string
}

// Turns bounds how many answers that take milliseconds of CPU are made at a time.
type Turns interface {
	// TakeTurn waits for the turn of a call. Its error refuses the call, which then had
	// no effect. The caller ends the turn when the answer is encoded.
	TakeTurn(ctx context.Context) error
}

// Told is what judging a call has found out about who makes it.
type Told struct {
	Principal, How string // as those of Caller; empty before it was judged, and while access is off
	Others         bool   // the session that the call is about is another principal's
	Adopted        string // session that the call has made the principal's; empty for none
}

// found is what judging the call has found out so far.
func (by *Caller) found() Told {
	if by.Told == nil {
		return Told{Principal: by.Principal, How: by.How}
	}
	return *by.Told
}

// Read is who asks and how. A stale read is answered from this replica's own
// state, master or not; any other is linearizable.
type Read struct {
	Caller *Caller // nil for nobody known
	Stale  bool
	// AsOf, where it is not nil, takes the revision of the state that the answer is
	// of, errors that the state gave included: all changes up to it, and none after,
	// are in the answer.
	AsOf *uint64
}

// of notes the state that is read.
func (r *Read) of(s *state.State) {
	if r.AsOf != nil {
		*r.AsOf = s.Revision
	}
}
