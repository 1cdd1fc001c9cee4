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

// isAnswer says whether an attempt that ended so was answered by a replica.
func isAnswer(err error) bool {
	if err == nil {
		return true // without the memory that the rest takes
	}
	_, failed := errors.AsType[*attemptError](err)
	return !failed && !isForeign(err)
}
