package client

import (
	"errors"
	"fmt"
	"net/http"

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
		err = e.refusal
	case *attemptError: // and the call must not be sent again
		return fmt.Errorf("stout: %s %s: %w: %w", q.method, q.path, lockapi.CodeOutcomeUnknown, err)
	}
	if refused, ok := err.(*lockapi.Error); ok && q.leavesOpen(refused.Code) {
		return q.unknown(refused)
	}
	return err
}

// leavesOpen reports whether the call may have taken effect although its last
// attempt was refused with the code: an earlier one got no answer, and the
// refusal is not of that one. Two codes say by themselves that they leave it
// open.
func (q *call) leavesOpen(code lockapi.Code) bool {
	return q.unsettled && q.method != http.MethodGet &&
		code != lockapi.CodeOutcomeUnknown && code != lockapi.CodeInternal &&
		(q.settles == nil || !q.settles(code))
}

// unsettledError is outcome_unknown for a call that was refused when it was sent
// again. It is not the refusal: that one is of the last attempt alone.
type unsettledError struct{ outcome, refusal *lockapi.Error }

func (e *unsettledError) Error() string { return e.outcome.Error() }
func (e *unsettledError) Unwrap() error { return e.outcome }

func (q *call) unknown(refusal *lockapi.Error) error {
	e := lockapi.Errorf(lockapi.CodeOutcomeUnknown,
		"%s %s may have taken effect: an attempt got no answer; the next was refused: %v", q.method, q.path, refusal)
	e.RetryAfter = refusal.RetryAfter
	return &unsettledError{e, refusal}
}

// isAnswer says whether an attempt that ended so was answered by a replica.
func isAnswer(err error) bool {
	if err == nil {
		return true // without the memory that the rest takes
	}
	_, failed := errors.AsType[*attemptError](err)
	return !failed && !isForeign(err)
}
