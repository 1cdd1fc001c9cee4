package client

import (
	"errors"
	"fmt"

	"github.com/stoutlock/stout/lockapi"
)

// foreignAnswer is an answer that no replica gives: that of a web server, say,
// at a URL that is none of a replica's. It stands for the refusal that it looks
// like, with less weight: in a race it settles nothing while a replica may
// answer yet.
type foreignAnswer struct{ refusal *lockapi.Error }

func (f *foreignAnswer) Error() string { return f.refusal.Error() }
func (f *foreignAnswer) Unwrap() error { return f.refusal }

func isForeign(err error) bool {
	_, ok := err.(*foreignAnswer)
	return ok
}

// isNonsense says of an error that no replica that is well has answered so.
func isNonsense(err error) bool {
	refused, ok := err.(*lockapi.Error)
	return ok && refused.Code == lockapi.CodeInternal || isForeign(err)
}

// outcome is the error of a call as its caller gets it: err is what its last
// attempt ended with.
func (q *call) outcome(err error) error {
	switch e := err.(type) {
	case *foreignAnswer:
		return e.refusal
	case *attemptError: // and the call must not be sent again
		return fmt.Errorf("stout: %s %s: %w: %w", q.method, q.path, lockapi.CodeOutcomeUnknown, err)
	}
	return err
}

// unknown is the error of a call that was refused when it was sent again: what
// came of the attempts before nobody has told. That the last one had no effect
// says nothing of them.
func (q *call) unknown(refusal error) error {
	e := lockapi.Errorf(lockapi.CodeOutcomeUnknown,
		"%s %s may have taken effect: an attempt got no answer; the next was refused: %v", q.method, q.path, refusal)
	if refused, ok := errors.AsType[*lockapi.Error](refusal); ok {
		e.RetryAfter = refused.RetryAfter
	}
	return e
}

// isAnswer says whether an attempt that ended so was answered by a replica.
func isAnswer(err error) bool {
	if err == nil {
		return true // without the memory that the rest takes
	}
	_, failed := errors.AsType[*attemptError](err)
	return !failed && !isForeign(err)
}
