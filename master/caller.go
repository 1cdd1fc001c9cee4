package master

import (
	"context"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/batch"
	"github.com/stoutlock/stout/master/internal/rights"
	"github.com/stoutlock/stout/replica/state"
)

// Timeline records what the log did for a traced call.
type Timeline = batch.Timeline

// Right is what a call needs while access is on, and Ask is one permission that
// it needs; see package rights.
type (
	Right = rights.Right
	Ask   = rights.Ask
)

// The rights; see package rights.
const (
	Undecided   = rights.Undecided
	NoCaller    = rights.NoCaller
	Nothing     = rights.Nothing
	AnyCaller   = rights.AnyCaller
	KnownCaller = rights.KnownCaller
	Reader      = rights.Reader
	Known       = rights.Known
	Observe     = rights.Observe
	Operate     = rights.Operate
	ReadAt      = rights.ReadAt
	LockAt      = rights.LockAt
	WriteAt     = rights.WriteAt
	AdminAt     = rights.AdminAt
	ReadBelow   = rights.ReadBelow
	WriteBelow  = rights.WriteBelow
	AdminBelow  = rights.AdminBelow
	NameAt      = rights.NameAt
)

// Caller is the caller of a call, with the rights that the call needs. A master
// that acts by itself, as when it expires a session, uses the zero value.
type Caller struct {
	// Principal is the caller's proved identity and How its proof; empty
	// without one. The log records it with the caller's changes
	// (state.Command).
	Principal, How string
	// Ends is when the proof expires; zero for never.
	Ends time.Time
	// Secret is the SHA-256 of the caller's token; nil without one. The
	// check of the call finds the token's principal.
	Secret *[32]byte
	// Ask is the right that the call needs, and Also are further ones. For
	// is about the session that the call acts for, if there is one.
	Ask, For Ask
	Also     []Ask

	// Told, if not nil, receives what the check has found out.
	Told *Checked
	// Admitted, if not nil, is called with the findings of the check before
	// a change has any effect; its error refuses the change. Reads do not
	// call it.
	Admitted func(Checked) error
	// Adopts, if not nil, is called in the same way before the call makes
	// sessions the caller's; its error refuses the call.
	Adopts func(Checked) error

	// WhileOff, if not nil, refuses the call while access is off.
	WhileOff error

	// Parking, if not nil, lets a keepalive wait without its goroutine.
	Parking *Parking
	// Turns, if not nil, gives turns to heavy calls.
	Turns Turns
	// Timeline, if not nil, records what the log does for the call.
	Timeline *Timeline

	// RemoteAddr is the host and port of the caller. It decides nothing.
	RemoteAddr string

	adopts []string // the sessions to be adopted by the caller
}

// who returns the principal, which decides what the caller may do.
func (by *Caller) who() rights.Principal { return rights.Principal(by.Principal) }

// free reports whether no check is needed: access is off and the caller brings
// no credential.
func (by *Caller) free(s *state.State) bool {
	return !s.AccessOn && by.Secret == nil && by.Ends.IsZero() && by.WhileOff == nil
}

// end returns when the caller's credential expires by itself: zero if it does
// not, or if that is unknown.
func (by *Caller) end(s *state.State) time.Time {
	if by.Secret == nil {
		return by.Ends
	}
	if t, ok := s.TokenOf(*by.Secret); ok && t.ExpiresAt != 0 {
		return time.Unix(0, t.ExpiresAt)
	}
	return time.Time{}
}

// within returns wait, or the time until the caller's credential expires if
// that is less. The caller must then be checked again.
func (by *Caller) within(s *state.State, wait time.Duration) time.Duration {
	end := by.end(s)
	if end.IsZero() {
		return wait
	}
	return min(wait, max(time.Until(end), time.Millisecond))
}

// ended reports whether the caller's credential has expired by itself.
func (by *Caller) ended(s *state.State) bool {
	end := by.end(s)
	return !end.IsZero() && !time.Now().Before(end)
}

// identify sets the principal of a token. Other credentials were verified
// before the call; identify checks only that they have not expired since.
func (by *Caller) identify(s *state.State) error {
	if by.Secret == nil {
		if !by.Ends.IsZero() && !time.Now().Before(by.Ends) {
			return lockapi.Errorf(lockapi.CodeUnauthenticated, "the credential has ended at %s, while the call was under way", by.Ends.UTC().Format(time.RFC3339))
		}
		return nil
	}
	t, ok := s.TokenOf(*by.Secret)
	if !ok || t.ExpiresAt != 0 && time.Now().UnixNano() >= t.ExpiresAt {
		return lockapi.Errorf(lockapi.CodeUnauthenticated, "the token is unknown to this cell: it was revoked, has expired, or belongs to another cell")
	}
	by.Principal, by.How = t.Principal, lockapi.HowToken
	return nil
}

// Turns bounds how many answers that take milliseconds of CPU are made at a
// time.
type Turns interface {
	// AwaitTurn waits for the turn of a call. Its error refuses the call,
	// which then had no effect. The caller ends the turn when the answer is
	// encoded.
	AwaitTurn(ctx context.Context) error
}

// Checked is what the check of a call has found out about its caller.
type Checked struct {
	Principal, How string // as in Caller; empty before the check, and while access is off
	Others         bool   // the call is about another principal's session
	Adopted        string // the sessions that the call has adopted, separated by spaces; empty for none
}

// found returns the findings of the check so far.
func (by *Caller) found() Checked {
	if by.Told == nil {
		return Checked{Principal: by.Principal, How: by.How}
	}
	return *by.Told
}

// Read is the caller and the kind of a read. A stale read is answered from this
// replica's own state, on the master as elsewhere; any other is linearizable.
type Read struct {
	Caller *Caller // nil without a principal
	Stale  bool
	// AsOf, if not nil, receives the revision of the state that gave the
	// answer or the error: the answer includes all changes up to it, and no
	// later ones.
	AsOf *uint64
}

// of records the state that is read.
func (r *Read) of(s *state.State) {
	if r.AsOf != nil {
		*r.AsOf = s.Revision
	}
}
