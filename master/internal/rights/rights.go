// Package rights decides what a principal may do while access is on.
//
// It compares the rights that a call needs with the policy in the state, words
// the refusals, and removes from refusals what the caller may not read. All of
// it is pure: the same state, principal and call give the same answer.
// Credentials, and the choice of the state that decides, belong to package
// master. Rules and groups belong to package access.
package rights

import (
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// Right is what a call needs while access is on. The zero value admits
// operators only: a call that does not declare its right is denied to everybody
// else.
type Right uint8

// The rights.
const (
	Undecided   Right = iota
	NoCaller          // not even an operator
	Nothing           // every caller; the credential is not checked
	AnyCaller         // every caller, unless the credential is bad
	KnownCaller       // a known principal; anybody while a rule names anonymous
	Reader            // a known principal, or anonymous where it may read
	Known             // a known principal
	Observe           // the cell as a whole
	Operate
	ReadAt // a permission at a path
	LockAt
	WriteAt
	AdminAt    // at the root: Operate
	ReadBelow  // at a directory, and by every rule below it
	WriteBelow // as ReadBelow
	AdminBelow // as ReadBelow; at the root: Operate
	NameAt     // WriteAt for a sequential file: Path is a name of its form
)

// permissions maps the rights at a path to permissions.
var permissions = map[Right]access.Permission{ReadAt: access.Read, LockAt: access.Lock, WriteAt: access.Write, AdminAt: access.Admin,
	ReadBelow: access.Read, WriteBelow: access.Write, AdminBelow: access.Admin}

// Ask is one permission that a call needs.
type Ask struct {
	Right Right
	Path  string // of those at a path
	// Session is the session that the call acts for or is about; empty
	// without one. If it belongs to the caller, any known principal may
	// make the call; otherwise the call needs Right. For a session that
	// does not exist, too, any known principal may: the call then gets
	// session_not_found.
	Session string
	// Uses lets the caller adopt a session without a principal. The caller
	// must be allowed to lock wherever the session holds or waits, and to
	// write each file that ends with it. For other callers such a session
	// does not exist.
	Uses bool
}

// Principal is the proved identity of a caller; empty without one.
type Principal string

// Identity returns the principal that the policy knows.
func (p Principal) Identity() string {
	if p == "" {
		return access.Anonymous
	}
	return string(p)
}

// May returns the refusal of one right, or nil. adopts is the session that the
// call makes the caller's, or empty. others reports that the call is about
// another principal's session; a refused call may be that, too.
func (p Principal) May(s *state.State, ask *Ask) (adopts string, others bool, err error) {
	right := ask.Right
	if right == NameAt {
		if right = WriteAt; s.ChecksNames() && s.Policy().HasRules(ask.Path[:len(ask.Path)-state.SequenceDigits]) {
			right = KnownCaller // the state checks the name itself when it makes it
		}
	}
	if ask.Session != "" {
		switch v, lives := s.Session(ask.Session); {
		case !lives, v.Principal == string(p):
			right = Known
		case v.Principal == "" && p.mayAdopt(s, v.ID):
			right = Known
			if ask.Uses {
				adopts = v.ID
			}
		case v.Principal == "":
			if allowed, _ := p.Has(s.Policy(), right, ask.Path); !allowed {
				return "", false, ErrNoSession(ask.Session)
			}
		}
		others = right != Known
	}
	if allowed, permission := p.Has(s.Policy(), right, ask.Path); !allowed {
		return "", others, p.Denied(permission, ask.Path)
	}
	return adopts, others, nil
}

// mayAdopt reports whether the caller may lock wherever a session holds or
// waits, and write each file that ends with it. Such a caller could have made
// all of these itself. Without the check of the files, a caller could delete
// files that it may not write by closing the session.
func (p Principal) mayAdopt(s *state.State, session string) bool {
	may := func(permission access.Permission, path string) bool {
		return s.Policy().May(p.Identity(), permission, path).Allowed
	}
	for hold, wait := range s.HoldsAndWaits(session) {
		if hold != nil && !may(access.Lock, hold.Path) || wait != nil && !may(access.Lock, wait.Path) {
			return false
		}
		if hold != nil && hold.Key == state.KeyDeleted && !may(access.Write, hold.Path) {
			return false // its file ends with it
		}
	}
	for f := range s.Ephemeral(session) {
		if !may(access.Write, f.Path) {
			return false
		}
	}
	return true
}

// Has reports whether the principal has a right, and names the permission for
// it.
func (p Principal) Has(policy *access.Policy, right Right, path string) (bool, string) {
	who := p.Identity()
	switch right {
	case AnyCaller:
		return true, ""
	case KnownCaller:
		return p != "" || policy.NamesAnonymous(), "name"
	case Reader:
		return p != "" || policy.May(who, access.Read, path).Allowed, "name"
	case Known:
		return p != "", "name"
	case Observe:
		return policy.Observes(who), lockapi.PermissionObserve
	case NoCaller:
		return false, "none"
	case ReadAt, LockAt, WriteAt, AdminAt, ReadBelow, WriteBelow, AdminBelow:
		permission := permissions[right]
		switch {
		case (right == AdminAt || right == AdminBelow) && path == "/":
			return policy.Operates(who), lockapi.PermissionOperate
		case right >= ReadBelow && right <= AdminBelow:
			return policy.MayBelow(who, permission, path), permission.String()
		}
		return policy.May(who, permission, path).Allowed, permission.String()
	}
	return policy.Operates(who), lockapi.PermissionOperate
}

// MayChangeRule reports whether the principal may change the rule at a path.
func (p Principal) MayChangeRule(s *state.State, path string) bool {
	if !s.AccessOn {
		return true
	}
	allowed, _ := p.Has(s.Policy(), AdminAt, path)
	return allowed
}

// MayRead reports whether the principal may read at a path.
func (p Principal) MayRead(s *state.State, path string) bool { return s.MayRead(p.Identity(), path) }

// MayWait reports whether a wait's session has a principal that may lock there.
func MayWait(s *state.State, w *state.Wait) bool {
	v, lives := s.Session(w.Session)
	return !s.AccessOn || !lives || s.Policy().May(Principal(v.Principal).Identity(), access.Lock, w.Path).Allowed
}
