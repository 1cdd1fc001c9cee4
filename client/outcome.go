package client

import (
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/stoutlock/stout/lockapi"
)

// attemptError reports an attempt without an answer of the contract.
type attemptError struct {
	base string
	sent bool // false if the request was certainly not sent
	err  error
}

func (e *attemptError) Error() string { return e.base + ": " + e.err.Error() }
func (e *attemptError) Unwrap() error { return e.err }

// callError reports a call that ended with its context.
type callError struct {
	op     string
	cause  error // why it was given up
	class  lockapi.Code
	last   error
	silent bool // no replica answered
}

func (e *callError) Error() string {
	if e.last == nil {
		return fmt.Sprintf("stout: %s: %v", e.op, e.cause)
	}
	what := string(e.class)
	if e.silent {
		what += ", " + ErrNoAnswer.Error()
	}
	return fmt.Sprintf("stout: %s: %s: %v (last attempt: %v)", e.op, what, e.cause, e.last)
}

func (e *callError) Unwrap() []error {
	if e.last == nil {
		return []error{e.cause}
	}
	if e.silent {
		return []error{e.cause, e.class, ErrNoAnswer}
	}
	return []error{e.cause, e.class}
}

// errCut ends a call if its cut context ended before the caller's context, or
// if the caller's context ended with errCut as its cause.
var errCut = errors.New("stout: the call was cut off")

// givenUp returns the error of a call after the end of its context, with the
// given last failure.
func (q *call) givenUp(cause, last error) error {
	class := lockapi.CodeNoMaster
	if q.unsettled && q.method != http.MethodGet {
		class = lockapi.CodeOutcomeUnknown
	}
	return &callError{op: q.method + " " + q.path, cause: cause, class: class, last: last, silent: !q.answered}
}

// foreignAnswer is an answer that no replica gives, for example from a web
// server at a URL that is not a replica's. It means the refusal that it
// resembles, with less weight: in a hedge it settles no call while a replica may
// still answer.
type foreignAnswer struct{ refusal *lockapi.Error }

func (f *foreignAnswer) Error() string { return f.refusal.Error() }
func (f *foreignAnswer) Unwrap() error { return f.refusal }

func isForeign(err error) bool {
	_, ok := err.(*foreignAnswer)
	return ok
}

// isNonsense reports whether an error is an answer that a healthy replica never
// gives.
func isNonsense(err error) bool {
	refused, ok := err.(*lockapi.Error)
	return ok && refused.Code == lockapi.CodeInternal || isForeign(err)
}

// outcome converts the error of the last attempt into the error that the caller
// gets.
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
// attempt was refused with the code. It may if an earlier attempt got no answer
// and the refusal does not settle that one. Two codes leave the outcome open by
// themselves.
func (q *call) leavesOpen(code lockapi.Code) bool {
	return q.unsettled && q.method != http.MethodGet &&
		code != lockapi.CodeOutcomeUnknown && code != lockapi.CodeInternal &&
		(q.settles == nil || !q.settles(code))
}

// unsettledError is outcome_unknown for a call that was refused on a repeated
// attempt. It is not the refusal, which is about the last attempt only.
type unsettledError struct{ outcome, refusal *lockapi.Error }

func (e *unsettledError) Error() string { return e.outcome.Error() }
func (e *unsettledError) Unwrap() error { return e.outcome }

func (q *call) unknown(refusal *lockapi.Error) error {
	e := lockapi.Errorf(lockapi.CodeOutcomeUnknown,
		"%s %s may have taken effect: an attempt got no answer; the next was refused: %v", q.method, q.path, refusal)
	e.RetryAfter = refusal.RetryAfter
	return &unsettledError{e, refusal}
}

// isAnswer reports whether a replica answered an attempt with this error.
func isAnswer(err error) bool {
	if err == nil {
		return true // without an allocation
	}
	_, failed := errors.AsType[*attemptError](err)
	return !failed && !isForeign(err)
}

// mayHaveTakenEffect reports whether an attempt with this error may have taken
// effect. A refusal has not, except for the codes that leave it open.
func mayHaveTakenEffect(err error) bool {
	if err == nil {
		return true
	}
	if failed, ok := errors.AsType[*attemptError](err); ok {
		return failed.sent
	}
	return errors.Is(err, lockapi.CodeOutcomeUnknown) || errors.Is(err, lockapi.CodeInternal)
}

// neverSent reports whether an attempt with this error was certainly not sent.
func neverSent(err error) bool { return errors.Is(err, errNoToken) || isDialError(err) }

func isDialError(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
