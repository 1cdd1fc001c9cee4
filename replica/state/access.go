package state

import (
	"errors"
	"strings"

	"github.com/stoutlock/stout/replica/state/access"
)

// The state stores the access policy; package access decides by it. Callers
// consult it only while AccessOn is set. These operations have no revision:
// they change what callers may do, not locks or files.

// levelAccess is the first level with access control: rules, groups, tokens,
// and the principals of sessions and files.
const levelAccess = 2

// Policy returns the access policy. It exists while access is off, too.
func (s *State) Policy() *access.Policy { return s.policy }

// AccessChanged reports that rights have changed at a path and below it.
type AccessChanged struct{ Below string }

// PutRule sets the rule at a path. The result is Done, Full, or Nothing if the
// same rule is already there.
type PutRule struct {
	Rule access.Rule `cbor:"1,keyasint"`
}

func (op *PutRule) wellFormed() bool { return op.Rule.Sound() }

func (op *PutRule) size() int {
	n := 32 + len(op.Rule.Path)
	for _, p := range access.Permissions {
		n += listSize(op.Rule.Lists[p])
	}
	return n
}

func listSize(list []string) int {
	n := 8
	for _, entry := range list {
		n += 4 + len(entry)
	}
	return n
}

func (op *PutRule) would(s *State) (Result, bool) {
	if was, ok := s.policy.Rule(op.Rule.Path); ok && was.Same(&op.Rule) {
		return Nothing, false
	}
	return s.wouldPut(s.policy.PutRule(&op.Rule))
}

func (op *PutRule) do(e *editor, r Result) Result {
	rule := op.Rule
	if rule.Principal = ""; access.IsUser(e.caller) {
		rule.Principal = e.caller
	}
	return e.putPolicy(r, op.Rule.Path)(e.policy.PutRule(&rule))
}

// wouldPut returns the result of a change of the policy.
func (s *State) wouldPut(_ *access.Policy, err error) (Result, bool) {
	switch {
	case errors.Is(err, access.ErrFull):
		return Full, false
	case errors.Is(err, access.ErrCycle):
		return Cycle, false
	}
	return Done, true
}

// putPolicy makes a change that wouldPut has accepted. The change affects the
// path below and the paths beneath it.
func (e *editor) putPolicy(r Result, below string) func(*access.Policy, error) Result {
	return func(p *access.Policy, _ error) Result {
		e.policy = p
		e.record(AccessChanged{Below: below})
		return r
	}
}

// DropRule removes the rule at a path. The result is Done or Nothing.
type DropRule struct {
	Path string `cbor:"1,keyasint"`
}

func (op *DropRule) wellFormed() bool { return true }
func (op *DropRule) size() int        { return 16 + len(op.Path) }

func (op *DropRule) would(s *State) (Result, bool) {
	_, ok := s.policy.Rule(op.Path)
	return doneIf(ok)
}

func (op *DropRule) do(e *editor, r Result) Result {
	return e.putPolicy(r, op.Path)(e.policy.DropRule(op.Path), nil)
}

// DropRules removes the rules below a directory. The result is Done or Nothing.
type DropRules struct {
	Dir string `cbor:"1,keyasint"` // "/" for the root
}

func (op *DropRules) wellFormed() bool { return op.Dir != "" }
func (op *DropRules) size() int        { return 16 + len(op.Dir) }

func (op *DropRules) would(s *State) (Result, bool) {
	for range s.policy.Rules(strings.TrimSuffix(op.Dir, "/")+"/", op.Dir) {
		return Done, true
	}
	return Nothing, false
}

func (op *DropRules) do(e *editor, r Result) Result {
	return e.putPolicy(r, op.Dir)(e.policy.DropRules(op.Dir), nil)
}

func doneIf(there bool) (Result, bool) {
	if !there {
		return Nothing, false
	}
	return Done, true
}

// PutGroup creates a group or replaces its members. The result is Done, Cycle,
// Full, or Nothing if the members are the same.
type PutGroup struct {
	Group access.Members `cbor:"1,keyasint"`
}

func (op *PutGroup) wellFormed() bool { return op.Group.Sound() }
func (op *PutGroup) size() int        { return 32 + len(op.Group.Group) + listSize(op.Group.Members) }

func (op *PutGroup) would(s *State) (Result, bool) {
	if was, ok := s.policy.Group(op.Group.Group); ok && was.Same(&op.Group) {
		return Nothing, false
	}
	return s.wouldPut(s.policy.PutGroup(&op.Group))
}

func (op *PutGroup) do(e *editor, r Result) Result {
	return e.putPolicy(r, "/")(e.policy.PutGroup(&op.Group))
}

// DropGroup removes a group. The result is Done or Nothing.
type DropGroup struct {
	Group string `cbor:"1,keyasint"`
}

func (op *DropGroup) wellFormed() bool { return true }
func (op *DropGroup) size() int        { return 16 + len(op.Group) }

func (op *DropGroup) would(s *State) (Result, bool) {
	_, ok := s.policy.Group(op.Group)
	return doneIf(ok)
}

func (op *DropGroup) do(e *editor, r Result) Result {
	return e.putPolicy(r, "/")(e.policy.DropGroup(op.Group), nil)
}

// PutCellRules sets the principals that may observe and operate the cell. The
// result is Done, or Nothing if the lists are the same.
type PutCellRules struct {
	Rules access.CellRules `cbor:"1,keyasint"`
}

func (op *PutCellRules) wellFormed() bool { return op.Rules.Sound() }

func (op *PutCellRules) size() int {
	return 32 + listSize(op.Rules.Observe) + listSize(op.Rules.Operate)
}

func (op *PutCellRules) would(s *State) (Result, bool) {
	was := s.policy.Cell()
	return doneIf(!was.Same(&op.Rules))
}

func (op *PutCellRules) do(e *editor, r Result) Result {
	return e.putPolicy(r, "/")(e.policy.PutCell(op.Rules), nil)
}

// EnableAccess turns access control on and adds a token for root. The result is
// a TokenResult: Done or Full; Conflict if access is on already or another
// principal has the secret. If root already has a token with this secret, it
// stays.
type EnableAccess struct {
	Token Token `cbor:"1,keyasint"`
}

func (op *EnableAccess) wellFormed() bool {
	return op.Token.sound() && op.Token.Principal == access.Root && op.Token.ExpiresAt == 0
}
func (op *EnableAccess) size() int { return op.Token.size() }

func (op *EnableAccess) would(s *State) (Result, bool) {
	if s.AccessOn {
		return TokenResult{Verdict: Conflict}, false
	}
	if was, ok := s.tokenBySum(op.Token.Sum); ok && was.Principal == access.Root && was.ExpiresAt == 0 {
		return TokenResult{Verdict: Done, Token: was}, true
	}
	return s.wouldAdd(&op.Token)
}

func (op *EnableAccess) do(e *editor, r Result) Result {
	e.AccessOn = true
	found := r.(TokenResult)
	if found.Token == nil {
		found.Token = e.addToken(&op.Token)
	}
	e.record(AccessChanged{Below: "/"})
	return found
}

// MayRead reports whether a principal may read at a path. While access is off,
// every principal may.
func (s *State) MayRead(principal, path string) bool {
	return !s.AccessOn || s.policy.May(principal, access.Read, path).Allowed
}

// DisableAccess turns access control off: every caller may do everything.
// Rules, groups and tokens are kept. The result is Done or Nothing.
type DisableAccess struct{}

func (op *DisableAccess) wellFormed() bool              { return true }
func (op *DisableAccess) size() int                     { return 1 }
func (op *DisableAccess) would(s *State) (Result, bool) { return doneIf(s.AccessOn) }

func (op *DisableAccess) do(e *editor, r Result) Result {
	e.AccessOn = false
	e.record(AccessChanged{Below: "/"})
	return r
}

// AdoptSession gives a session without a principal to one that uses it. The
// result is Done, NoSession, Conflict if the session has another principal, or
// Nothing if it already has this one.
type AdoptSession struct {
	Session   string `cbor:"1,keyasint"`
	Principal string `cbor:"2,keyasint"`
}

// SessionAdopted reports that a session now has a principal.
type SessionAdopted struct{ Session *Session }

func (op *AdoptSession) wellFormed() bool { return access.IsUser(op.Principal) }
func (op *AdoptSession) size() int        { return 16 + len(op.Session) + len(op.Principal) }

func (op *AdoptSession) would(s *State) (Result, bool) {
	switch v, ok := s.Session(op.Session); {
	case !ok:
		return NoSession, false
	case v.Principal == op.Principal:
		return Nothing, false
	case v.Principal != "":
		return Conflict, false
	}
	return Done, true
}

func (op *AdoptSession) do(e *editor, r Result) Result {
	was, _ := e.Session(op.Session)
	v := *was
	v.Principal = op.Principal
	e.putSession(&v)
	e.record(SessionAdopted{Session: &v})
	return r
}

// Expel ends the wait with number Seq, even a persistent one, because the
// principal of its session may no longer lock there. The result is Done, or
// Nothing if that wait is gone.
type Expel struct {
	Session string `cbor:"1,keyasint"`
	Path    string `cbor:"2,keyasint"`
	Handle  string `cbor:"3,keyasint,omitempty"`
	Seq     uint64 `cbor:"4,keyasint"`
}

// Expelled reports that Expel, or an attempt to grant the lock, ended a wait.
// EventSeq numbers the event that its session receives.
type Expelled struct {
	Wait     *Wait
	EventSeq uint64
}

func (op *Expel) wellFormed() bool { return plain(op.Path) }
func (op *Expel) size() int        { return 32 + len(op.Session) + len(op.Path) + len(op.Handle) }

func (op *Expel) would(s *State) (Result, bool) {
	_, w := s.HoldOrWait(op.Session, op.Path, op.Handle)
	return doneIf(w != nil && w.Seq == op.Seq)
}

func (op *Expel) do(e *editor, r Result) Result {
	_, w := e.HoldOrWait(op.Session, op.Path, op.Handle)
	e.expel(w)
	e.settleAll(w)
	return r
}

// expel ends a wait because the principal of its session may no longer lock
// there.
func (e *editor) expel(w *Wait) {
	e.dropWait(w)
	e.record(Expelled{Wait: w, EventSeq: e.nextSeq()})
}

// mayLock reports whether the principal of a wait's session may lock there.
func (e *editor) mayLock(w *Wait) bool {
	if !e.AccessOn {
		return true
	}
	principal := access.Anonymous
	if v, ok := e.Session(w.Session); ok && v.Principal != "" {
		principal = v.Principal
	}
	return e.policy.May(principal, access.Lock, w.Path).Allowed
}
