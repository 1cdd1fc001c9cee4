package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// call is one call of the API, with the record of its attempts so far.
type call struct {
	method string
	path   string
	query  string
	body   []byte
	fields []field            // of the header, in addition to the common ones
	out    any                // where a 2xx answer's JSON goes; nil to ignore it
	wait   time.Duration      // how long the server may hold it on purpose
	late   time.Duration      // how late its answer may be; 0 means answerTime
	once   bool               // not sent again after it may have taken effect
	single bool               // never under way twice at a time, so not hedged
	any    bool               // any replica may receive it and ask the master itself
	stale  bool               // the answer may be out of date
	aside  bool               // a connection dialled for it is not kept
	cut    context.Context    // if set, the context of attempts instead of the caller's
	renew  func(*call)        // if set, called before each further attempt, to update times
	status int                // of success; 0 means any 2xx
	check  func(*call) string // describes what is wrong with out, given want; may be nil
	want   wanted
	span   context.Context // of its Tracer; nil without one
	// settles reports which refusals also settle earlier attempts that got no
	// answer; nil means none. See outcome.
	settles func(lockapi.Code) bool

	account
	overdue bool  // the last attempt's answer was late, but the master answered other calls
	hedge   hedge // of the attempt under way; the zero value hedges no attempt
}

// field is one field of a request's header.
type field struct{ name, value string }

// under sets the idempotency key: the call takes effect once, however often it
// is sent.
func (q *call) under(key string) {
	q.fields = append(q.fields, field{lockapi.HeaderIdempotencyKey, key})
	q.settles = lockapi.Code.Settles
}

// seenThrough is settles for calls that any refusal settles: the caller finds
// and releases the remains of earlier attempts.
func seenThrough(lockapi.Code) bool { return true }

// isGone is settles for deletions: the object is gone, whichever attempt
// deleted it.
func isGone(c lockapi.Code) bool {
	return c == lockapi.CodeNotFound || c == lockapi.CodeSessionNotFound
}

// account records what the attempts of a call have shown, and may have done.
type account struct {
	answered  bool          // by a replica, with any answer
	unsettled bool          // one may have taken effect, and its answer is missing
	effective bool          // one may have taken effect, answered or not
	firstSent time.Duration // clock when the first such one was sent
}

// add merges another account into this one.
func (a *account) add(o account) {
	a.answered = a.answered || o.answered
	if !o.effective {
		return
	}
	if !a.effective || o.firstSent < a.firstSent {
		a.firstSent = o.firstSent
	}
	a.effective, a.unsettled = true, a.unsettled || o.unsettled
}

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

// isHedged reports whether another replica may be asked before the first
// answers.
func (q *call) isHedged() bool { return !q.once && !q.single }

// givenUp returns the error of a call after the end of its context, with the
// given last failure.
func (q *call) givenUp(cause, last error) error {
	class := lockapi.CodeNoMaster
	if q.unsettled && q.method != http.MethodGet {
		class = lockapi.CodeOutcomeUnknown
	}
	return &callError{op: q.method + " " + q.path, cause: cause, class: class, last: last, silent: !q.answered}
}
