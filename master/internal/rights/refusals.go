package rights

import (
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// ErrNoSession is the refusal for a session that does not exist, or that must
// not appear to exist.
func ErrNoSession(id string) *lockapi.Error {
	return lockapi.Errorf(lockapi.CodeSessionNotFound, "session %q never existed, was closed, or has expired; open a new one", lockapi.Clip(id))
}

// Denied returns the refusal of a permission. It reveals nothing of the cell's
// contents.
func (p Principal) Denied(permission, path string) *lockapi.Error {
	if p == "" {
		return lockapi.Errorf(lockapi.CodeUnauthenticated, "the call needs a credential: send a token as Authorization: Bearer, or use a client certificate")
	}
	e := lockapi.Errorf(lockapi.CodePermissionDenied, "%s may not do this: it needs %s on the cell", p, permission)
	switch {
	case permission == "none":
		e.Detail = lockapi.Errorf(e.Code, "%s may not do this: the session is another principal's", p).Detail
	case path != "":
		e.Detail = lockapi.Errorf(e.Code, "%s may not do this: it needs %s at %q", p, permission, lockapi.Clip(path)).Detail
	}
	e.Principal, e.Permission, e.Path = string(p), permission, path
	return e
}

// FilterRefusal removes from a refusal what the principal may not read.
func (p Principal) FilterRefusal(s *state.State, err *lockapi.Error, path string) *lockapi.Error {
	if p.MayRead(s, path) {
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

// FilterFailure is FilterRefusal for the failure of a transaction.
func (p Principal) FilterFailure(s *state.State, err error, f *state.Failure, steps []state.Step) error {
	refusal, ok := err.(*lockapi.Error)
	if !ok || f == nil || !s.AccessOn {
		return err
	}
	if f.Current != nil {
		return p.FilterRefusal(s, refusal, f.Current.Path)
	}
	switch step := steps[f.Step].(type) {
	case *state.Take:
		return p.FilterRefusal(s, refusal, step.Path)
	case *state.Write:
		return p.FilterRefusal(s, refusal, step.Path)
	case *state.Delete:
		return p.FilterRefusal(s, refusal, step.Path)
	}
	return err
}
