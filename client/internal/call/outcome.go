package call

import (
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/stoutlock/stout/lockapi"
)

// AttemptError reports an attempt without an answer of the contract.
type AttemptError struct {
	URL  string
	Sent bool // false if the request was certainly not sent
	Err  error
}

func (e *AttemptError) Error() string { return e.URL + ": " + e.Err.Error() }
func (e *AttemptError) Unwrap() error { return e.Err }

// CallError reports a call that ended with its context.
type CallError struct {
	op     string
	cause  error // why it was given up
	class  lockapi.Code
	Last   error
	silent bool // no replica answered
}

func (e *CallError) Error() string {
	if e.Last == nil {
		return fmt.Sprintf("stout: %s: %v", e.op, e.cause)
	}
	what := string(e.class)
	if e.silent {
		what += ", " + ErrNoAnswer.Error()
	}
	return fmt.Sprintf("stout: %s: %s: %v (last attempt: %v)", e.op, what, e.cause, e.Last)
}

func (e *CallError) Unwrap() []error {
	if e.Last == nil {
		return []error{e.cause}
	}
	if e.silent {
		return []error{e.cause, e.class, ErrNoAnswer}
	}
	return []error{e.cause, e.class}
}

// ErrNoAnswer is client.ErrNoAnswer.
var ErrNoAnswer = errors.New("no replica answered")

// ErrCut ends a call if its cut context ended before the caller's context, or
// if the caller's context ended with ErrCut as its cause.
var ErrCut = errors.New("stout: the call was cut off")

// ErrSilent ends a stream on which nothing has come for too long.
var ErrSilent = errors.New("the replica is silent")

// GivenUp returns the error of a call after the end of its context, with the
// given last failure.
func (q *Call) GivenUp(cause, last error) error {
	class := lockapi.CodeNoMaster
	if q.Unanswered && q.Method != http.MethodGet {
		class = lockapi.CodeOutcomeUnknown
	}
	return &CallError{op: q.Method + " " + q.Path, cause: cause, class: class, Last: last, silent: !q.answered}
}

// foreignAnswer is an answer that no replica gives, for example from a web
// server at a URL that is not a replica's. It counts as the refusal that it
// resembles. But in a hedge it does not settle the call while a replica may
// still answer.
type foreignAnswer struct{ refusal *lockapi.Error }

func (f *foreignAnswer) Error() string { return f.refusal.Error() }
func (f *foreignAnswer) Unwrap() error { return f.refusal }

func isForeign(err error) bool {
	_, ok := err.(*foreignAnswer)
	return ok
}

// IsInvalid reports whether an error is an answer that a healthy replica never
// gives.
func IsInvalid(err error) bool {
	refused, ok := err.(*lockapi.Error)
	return ok && refused.Code == lockapi.CodeInternal || isForeign(err)
}

// outcome converts the error of the last attempt into the error that the caller
// gets.
func (q *Call) outcome(err error) error {
	switch e := err.(type) {
	case *foreignAnswer:
		err = e.refusal
	case *AttemptError: // and the call must not be sent again
		if IsBadToken(err) && (!q.Unanswered || q.Method == http.MethodGet) {
			return fmt.Errorf("stout: %s %s: %w", q.Method, q.Path, err)
		}
		return fmt.Errorf("stout: %s %s: %w: %w", q.Method, q.Path, lockapi.CodeOutcomeUnknown, err)
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
func (q *Call) leavesOpen(code lockapi.Code) bool {
	return q.Unanswered && q.Method != http.MethodGet &&
		code != lockapi.CodeOutcomeUnknown && code != lockapi.CodeInternal &&
		(q.Settles == nil || !q.Settles(code))
}

// UnknownOutcome is outcome_unknown for a call that was refused on a repeated
// attempt. It is not the refusal, which is about the last attempt only.
type UnknownOutcome struct{ outcome, Refusal *lockapi.Error }

func (e *UnknownOutcome) Error() string { return e.outcome.Error() }
func (e *UnknownOutcome) Unwrap() error { return e.outcome }

func (q *Call) unknown(refusal *lockapi.Error) error {
	e := lockapi.Errorf(lockapi.CodeOutcomeUnknown,
		"%s %s may have taken effect: an attempt got no answer; the next was refused: %v", q.Method, q.Path, refusal)
	e.RetryAfter = refusal.RetryAfter
	return &UnknownOutcome{e, refusal}
}

// IsAnswer reports whether a replica answered an attempt, or a call, with this
// error. The caller's context or the Config's functions may supply an error that
// wraps another call's answer; that does not count.
func IsAnswer(err error) bool {
	if err == nil {
		return true // without an allocation
	}
	_, failed := errors.AsType[*AttemptError](err)
	_, givenUp := errors.AsType[*CallError](err)
	return !failed && !givenUp && !isForeign(err)
}

// Refusal returns the refusal in an attempt's error, also that of a
// foreignAnswer. An *AttemptError is no refusal: it may wrap one that the
// Config's functions return.
func Refusal(err error) (*lockapi.Error, bool) {
	if _, failed := errors.AsType[*AttemptError](err); failed {
		return nil, false
	}
	return errors.AsType[*lockapi.Error](err)
}

// mayHaveTakenEffect reports whether an attempt with this error may have taken
// effect. A refusal has not, except for the codes that leave it open.
func mayHaveTakenEffect(err error) bool {
	if err == nil {
		return true
	}
	if failed, ok := errors.AsType[*AttemptError](err); ok {
		return failed.Sent
	}
	return errors.Is(err, lockapi.CodeOutcomeUnknown) || errors.Is(err, lockapi.CodeInternal)
}

// NeverSent reports whether an attempt with this error was certainly not sent.
func NeverSent(err error) bool { return errors.Is(err, errNoToken) || isDialError(err) }

func isDialError(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
