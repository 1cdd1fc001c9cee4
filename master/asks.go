package master

import (
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// Right is what a call asks for while access is on. The zero value is nobody's but
// the operators': a call that does not say what it asks for is not let through.
type Right uint8

// The rights.
const (
	Undecided Right = iota
	Nobody          // not even an operator
	Nothing         // whoever calls; a bad credential is not even looked at
	Anybody         // whoever calls, unless the credential is bad
	Somebody        // somebody known; anybody while a rule names anonymous
	Reader          // somebody known, or anonymous where it may read
	Known           // somebody known
	Observe         // the cell as a whole
	Operate
	ReadAt // a permission at a path
	LockAt
	WriteAt
	AdminAt    // at the root: Operate
	WriteBelow // at a directory, and by every rule below it
	AdminBelow // the same; at the root: Operate
	NameAt     // WriteAt for a sequential file: Path is a name of its form
)

// Ask is one thing that a call asks for.
type Ask struct {
	Right Right
	Path  string // of those at a path
	// Session is the session that the call is made on behalf of, or that it is
	// about; empty for none. Where it is the caller's own, somebody known may do it;
	// otherwise Right is asked for. One that is not there is nobody's business: the
	// call is told so.
	Session string
	// Uses says that a session of nobody known becomes the caller's, if the caller
	// may lock wherever it holds or waits and write each file that ends with it. To
	// others it is not there.
	Uses bool
}

// judge finds out who calls, and whether he may do what he asks for. It is the one
// place where that is decided: every call comes here by admit, linear, read or
// Judge.
func judge(s *state.State, by *Caller) error {
	if by.Ask.Right == Nothing {
		return nil
	}
	if err := by.identify(s); err != nil {
		return err
	}
	if by.Told != nil {
		*by.Told = Told{Principal: by.Principal, How: by.How, Adopted: by.Told.Adopted}
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

// free reports whether there is nothing to be judged: access is off and the caller
// brings nothing to be looked at.
func (by *Caller) free(s *state.State) bool {
	return !s.AccessOn && by.Secret == nil && by.Ends.IsZero() && by.WhileOff == nil
}

// end is when the caller's credential ends by itself: zero if it does not, or if that
// is not known.
func (by *Caller) end(s *state.State) time.Time {
	if by.Secret == nil {
		return by.Ends
	}
	if t, ok := s.TokenOf(*by.Secret); ok && t.ExpiresAt != 0 {
		return time.Unix(0, t.ExpiresAt)
	}
	return time.Time{}
}

// within is a time to wait, or less: no longer than the caller's credential counts,
// if that is known. Who waits has it judged then.
func (by *Caller) within(s *state.State, wait time.Duration) time.Duration {
	end := by.end(s)
	if end.IsZero() {
		return wait
	}
	return min(wait, max(time.Until(end), time.Millisecond))
}

// ended reports whether the caller's credential has ended by itself.
func (by *Caller) ended(s *state.State) bool {
	end := by.end(s)
	return !end.IsZero() && !time.Now().Before(end)
}

// identify finds the principal of a token. That of another proof is known, which
// may have ended since.
func (by *Caller) identify(s *state.State) error {
	if by.Secret == nil {
		if !by.Ends.IsZero() && !time.Now().Before(by.Ends) {
			return lockapi.Errorf(lockapi.CodeUnauthenticated, "the credential has ended at %s, while the call was under way", by.Ends.UTC().Format(time.RFC3339))
		}
		return nil
	}
	t, ok := s.TokenOf(*by.Secret)
	if !ok || t.ExpiresAt != 0 && time.Now().UnixNano() >= t.ExpiresAt {
		return lockapi.Errorf(lockapi.CodeUnauthenticated, "the token is not one of this cell, or it has ended or expired")
	}
	by.Principal, by.How = t.Principal, lockapi.HowToken
	return nil
}

// who is the principal that is judged.
func (by *Caller) who() string {
	if by.Principal == "" {
		return access.Anonymous
	}
	return by.Principal
}

// may decides one thing.
func (by *Caller) may(s *state.State, ask *Ask) error {
	right := ask.Right
	if right == NameAt {
		if right = WriteAt; s.JudgesNames() && s.Policy().HasRules(ask.Path[:len(ask.Path)-state.SequenceDigits]) {
			right = Somebody // the name itself is judged where it is made
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

// mayAdopt reports whether the caller may lock wherever a session holds or waits, and
// write each file that ends with it: the caller could have made all of that. Without
// the files, a caller would delete what it may not write by closing the session.
func (by *Caller) mayAdopt(s *state.State, session string) bool {
	for hold, wait := range s.Claims(session) {
		if !s.Policy().May(by.who(), access.Lock, pathOf(hold, wait)).Allowed {
			return false
		}
	}
	for f := range s.Ephemeral(session) {
		if !s.Policy().May(by.who(), access.Write, f.Path).Allowed {
			return false
		}
	}
	return true
}

// permissions are those of the rights at a path.
var permissions = map[Right]access.Permission{ReadAt: access.Read, LockAt: access.Lock, WriteAt: access.Write, AdminAt: access.Admin,
	WriteBelow: access.Write, AdminBelow: access.Admin}

// has decides about a right, and names the permission that it takes.
func (by *Caller) has(p *access.Policy, right Right, path string) (bool, string) {
	who := by.who()
	switch right {
	case Anybody:
		return true, ""
	case Somebody:
		return by.Principal != "" || p.NamesAnonymous(), "name"
	case Reader:
		return by.Principal != "" || p.May(who, access.Read, path).Allowed, "name"
	case Known:
		return by.Principal != "", "name"
	case Observe:
		return p.Observes(who), lockapi.PermissionObserve
	case Nobody:
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

// denied is the refusal of a permission. It says nothing of what there is.
func (by *Caller) denied(permission, path string) *lockapi.Error {
	if by.Principal == "" {
		return lockapi.Errorf(lockapi.CodeUnauthenticated, "the call is not one that anybody may make, and it brings no credential: send a token as Authorization: Bearer, or show a client's certificate")
	}
	e := lockapi.Errorf(lockapi.CodePermissionDenied, "%s may not do this: it takes %s of the cell", by.Principal, permission)
	switch {
	case permission == "none":
		e.Detail = lockapi.Errorf(e.Code, "%s may not do this: the session is another principal's", by.Principal).Detail
	case path != "":
		e.Detail = lockapi.Errorf(e.Code, "%s may not do this: it takes %s at %q", by.Principal, permission, lockapi.Clip(path)).Detail
	}
	e.Principal, e.Permission, e.Path = by.Principal, permission, path
	return e
}

// sees reports whether the caller may read at a path.
func (by *Caller) sees(s *state.State, path string) bool {
	return s.MayRead(by.who(), path)
}

// conceal takes out of a refusal what the caller may not read.
func (by *Caller) conceal(s *state.State, err *lockapi.Error, path string) *lockapi.Error {
	if by.sees(s, path) {
		return err
	}
	err.Holders, err.MoreHolders, err.Current = nil, 0, nil
	err.Concealed = true
	switch err.Code {
	case lockapi.CodeLockHeld:
		err.Detail = lockapi.Errorf(err.Code, "lock %q was not granted; wait with wait_ms or queue", path).Detail
	case lockapi.CodePrecondition:
		err.Detail = lockapi.Errorf(err.Code, "it is not as the call wants it at %q, where you may not read: nothing was changed", lockapi.Clip(path)).Detail
	}
	return err
}

// concealFailure is conceal for what a transaction came to.
func (by *Caller) concealFailure(s *state.State, err error, f *state.Failure, steps []state.Step) error {
	told, ok := err.(*lockapi.Error)
	if !ok || f == nil || !s.AccessOn {
		return err
	}
	if f.Current != nil {
		return by.conceal(s, told, f.Current.Path)
	}
	switch step := steps[f.Step].(type) {
	case *state.Take:
		return by.conceal(s, told, step.Path)
	case *state.Write:
		return by.conceal(s, told, step.Path)
	case *state.Delete:
		return by.conceal(s, told, step.Path)
	}
	return err
}

func errFounding() error {
	return errNoMaster("the cell is being founded with access on, which takes all of its replicas, and their found-token-file")
}

// Judge judges a call that this replica answers itself, by its own state: about the
// replica, or for events, which WatchEvents judges again. A credential is refused only
// where the replica answers by its own state: else it may not know of the token yet.
func (m *Master) Judge(by *Caller) error {
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
	err := judge(s, by)
	if err != nil && (by.Secret != nil || by.Principal != "") {
		if _, _, behind := m.ownState(); behind != nil {
			return behind
		}
	}
	return err
}

// judge is judge for a call that is to be served in this office.
func (o *office) judge(by *Caller) error {
	s := o.log.State()
	if o.opts.awaitsFounding(s) {
		return errFounding()
	}
	if by.free(s) {
		return nil
	}
	if err := judge(s, by); err != nil || by.adopts == "" {
		return err
	}
	return o.adopt(by)
}

// adopt makes a session of nobody known the caller's. It is a change of its own,
// which the audit log has whatever the call is.
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
