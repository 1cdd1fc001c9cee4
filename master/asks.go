package master

import (
	"time"

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
	WriteBelow // at a directory, and by every rule below it
	AdminBelow // the same; at the root: Operate
	NameAt     // WriteAt for a sequential file: Path is a name of its form
)

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

// authorize identifies the caller and checks the rights that it asks for. All
// rights are decided here: every call passes through admit, linear, read or
// Authorize.
func authorize(s *state.State, by *Caller) error {
	if by.Ask.Right == Nothing {
		return nil
	}
	if err := by.identify(s); err != nil {
		return err
	}
	if by.Told != nil {
		*by.Told = Checked{Principal: by.Principal, How: by.How, Adopted: by.Told.Adopted}
	}
	if !s.AccessOn {
		return by.WhileOff
	}
	by.adopts = ""
	if err := by.may(s, &by.Ask); err != nil {
		return err
	}
	if by.For.Session != "" {
		if err := by.may(s, &by.For); err != nil {
			return err
		}
	}
	for i := range by.Also {
		if err := by.may(s, &by.Also[i]); err != nil {
			return err
		}
	}
	return nil
}

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

// identity returns the principal whose rights count.
func (by *Caller) identity() string {
	if by.Principal == "" {
		return access.Anonymous
	}
	return by.Principal
}

// may checks one right.
func (by *Caller) may(s *state.State, ask *Ask) error {
	right := ask.Right
	if right == NameAt {
		if right = WriteAt; s.ChecksNames() && s.Policy().HasRules(ask.Path[:len(ask.Path)-state.SequenceDigits]) {
			right = KnownCaller // the state checks the name itself when it makes it
		}
	}
	if ask.Session != "" {
		switch v, lives := s.Session(ask.Session); {
		case !lives, v.Principal == by.Principal:
			right = Known
		case v.Principal == "" && by.mayAdopt(s, v.ID):
			right = Known
			if ask.Uses {
				by.adopts = v.ID
			}
		case v.Principal == "":
			if allowed, _ := by.has(s.Policy(), right, ask.Path); !allowed {
				return errNoSession(ask.Session)
			}
		}
	}
	allowed, permission := by.has(s.Policy(), right, ask.Path)
	if by.Told != nil && ask == &by.Ask && right != Known && ask.Session != "" {
		by.Told.Others = true
	}
	if allowed {
		return nil
	}
	return by.denied(permission, ask.Path)
}

// mayAdopt reports whether the caller may lock wherever a session holds or
// waits, and write each file that ends with it. Such a caller could have made
// all of these itself. Without the check of the files, a caller could delete
// files that it may not write by closing the session.
func (by *Caller) mayAdopt(s *state.State, session string) bool {
	for hold, wait := range s.Claims(session) {
		if !s.Policy().May(by.identity(), access.Lock, pathOf(hold, wait)).Allowed {
			return false
		}
	}
	for f := range s.Ephemeral(session) {
		if !s.Policy().May(by.identity(), access.Write, f.Path).Allowed {
			return false
		}
	}
	return true
}

// permissions maps the rights at a path to permissions.
var permissions = map[Right]access.Permission{ReadAt: access.Read, LockAt: access.Lock, WriteAt: access.Write, AdminAt: access.Admin,
	WriteBelow: access.Write, AdminBelow: access.Admin}

// has reports whether the caller has a right, and names the permission for it.
func (by *Caller) has(p *access.Policy, right Right, path string) (bool, string) {
	who := by.identity()
	switch right {
	case AnyCaller:
		return true, ""
	case KnownCaller:
		return by.Principal != "" || p.NamesAnonymous(), "name"
	case Reader:
		return by.Principal != "" || p.May(who, access.Read, path).Allowed, "name"
	case Known:
		return by.Principal != "", "name"
	case Observe:
		return p.Observes(who), lockapi.PermissionObserve
	case NoCaller:
		return false, "none"
	case ReadAt, LockAt, WriteAt, AdminAt, WriteBelow, AdminBelow:
		permission := permissions[right]
		switch {
		case (right == AdminAt || right == AdminBelow) && path == "/":
			return p.Operates(who), lockapi.PermissionOperate
		case right == WriteBelow || right == AdminBelow:
			return p.MayBelow(who, permission, path), permission.String()
		}
		return p.May(who, permission, path).Allowed, permission.String()
	}
	return p.Operates(who), lockapi.PermissionOperate
}

// denied returns the refusal of a permission. It reveals nothing of the cell's
// contents.
func (by *Caller) denied(permission, path string) *lockapi.Error {
	if by.Principal == "" {
		return lockapi.Errorf(lockapi.CodeUnauthenticated, "the call needs a credential: send a token as Authorization: Bearer, or use a client certificate")
	}
	e := lockapi.Errorf(lockapi.CodePermissionDenied, "%s may not do this: it needs %s on the cell", by.Principal, permission)
	switch {
	case permission == "none":
		e.Detail = lockapi.Errorf(e.Code, "%s may not do this: the session is another principal's", by.Principal).Detail
	case path != "":
		e.Detail = lockapi.Errorf(e.Code, "%s may not do this: it needs %s at %q", by.Principal, permission, lockapi.Clip(path)).Detail
	}
	e.Principal, e.Permission, e.Path = by.Principal, permission, path
	return e
}

// sees reports whether the caller may read at a path.
func (by *Caller) sees(s *state.State, path string) bool {
	return s.MayRead(by.identity(), path)
}

// conceal removes from a refusal what the caller may not read.
func (by *Caller) conceal(s *state.State, err *lockapi.Error, path string) *lockapi.Error {
	if by.sees(s, path) {
		return err
	}
	err.Holders, err.MoreHolders, err.Current = nil, 0, nil
	err.Concealed = true
	switch err.Code {
	case lockapi.CodeLockHeld:
		err.Detail = lockapi.Errorf(err.Code, "lock %q is held or waited for by others", path).Detail
	case lockapi.CodePrecondition:
		err.Detail = lockapi.Errorf(err.Code, "a condition at %q, where you may not read, does not hold: nothing was changed", lockapi.Clip(path)).Detail
	}
	return err
}

// concealFailure is conceal for the failure of a transaction.
func (by *Caller) concealFailure(s *state.State, err error, f *state.Failure, steps []state.Step) error {
	refusal, ok := err.(*lockapi.Error)
	if !ok || f == nil || !s.AccessOn {
		return err
	}
	if f.Current != nil {
		return by.conceal(s, refusal, f.Current.Path)
	}
	switch step := steps[f.Step].(type) {
	case *state.Take:
		return by.conceal(s, refusal, step.Path)
	case *state.Write:
		return by.conceal(s, refusal, step.Path)
	case *state.Delete:
		return by.conceal(s, refusal, step.Path)
	}
	return err
}

func errFounding() error {
	return errNoMaster("the cell is being founded with access on, which needs all of its replicas and their found-token-file")
}

// Authorize checks a call that this replica answers from its own state: about the
// replica itself, or for events, which WatchEvents checks again. A refusal
// holds only if the replica may answer from its own state. Otherwise it may
// not know a new token yet, and the error is no_master.
func (m *Master) Authorize(by *Caller) error {
	s := m.log.State()
	if by.Ask.Right == Nothing {
		return nil
	}
	if m.opts.awaitsFounding(s) {
		return errFounding()
	}
	if by.free(s) {
		return nil
	}
	err := authorize(s, by)
	if err != nil && (by.Secret != nil || by.Principal != "") {
		if _, _, behind := m.ownState(); behind != nil {
			return behind
		}
	}
	return err
}

// authorize checks a call that is served in this office.
func (o *office) authorize(by *Caller) error {
	s := o.log.State()
	if o.opts.awaitsFounding(s) {
		return errFounding()
	}
	if by.free(s) {
		return nil
	}
	if err := authorize(s, by); err != nil || by.adopts == "" {
		return err
	}
	return o.adopt(by)
}

// adopt makes a session without a principal the caller's. This is a change of
// its own, which the audit log records for every type of call.
func (o *office) adopt(by *Caller) error {
	if err := o.readyFor(&state.AdoptSession{}); err != nil {
		return err
	}
	if by.Told != nil {
		by.Told.Adopted = by.adopts
	}
	if by.Adopts != nil {
		if err := by.Adopts(by.found()); err != nil {
			return err
		}
	}
	r, err := o.propose(by, &state.AdoptSession{Session: by.adopts, Principal: by.Principal})
	if err != nil || r == state.Done {
		return err
	}
	if by.Told != nil {
		by.Told.Adopted = ""
	}
	if r == state.Conflict { // another one was first
		return by.denied("none", "")
	}
	return nil
}
