package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// call is one call of the API, with what its attempts have shown so far.
type call struct {
	method string
	path   string
	query  string
	body   []byte
	fields []field            // of the header, beside those that all calls have
	out    any                // where a 2xx answer's JSON goes; nil to ignore it
	wait   time.Duration      // for how long the server may hold it in good order
	late   time.Duration      // how late its answer may be; 0 stands for answerTime
	once   bool               // must not be sent again after it may have taken effect
	single bool               // must not be under way twice at a time, so is not hedged
	any    bool               // any replica may take it and ask the master itself
	stale  bool               // what may be out of date will do
	aside  bool               // a connection dialled for it is not kept
	cut    context.Context    // if set, attempts run under it rather than the caller's context
	renew  func(*call)        // if set, is called before each further attempt, for what depends on the time
	status int                // of success; 0 stands for any 2xx
	check  func(*call) string // says what is wrong with out, given want; may be nil
	want   wanted
	span   context.Context // of its Tracer; nil without one
	// settles reports which refusals leave nothing open of earlier attempts that
	// got no answer; nil for none of them. See outcome.
	settles func(lockapi.Code) bool

	account
	overdue bool  // the last attempt's answer was late, from a master that gives others
	hedge   hedge // of the attempt under way; its zero value hedges nothing
}

// field is one of a request's header.
type field struct{ name, value string }

// under has the call done once however often it is sent.
func (q *call) under(key string) {
	q.fields = append(q.fields, field{lockapi.HeaderIdempotencyKey, key})
	q.settles = lockapi.Code.Settles
}

// seenThrough is for calls whose maker looks for what earlier attempts may have
// left in the cell: any refusal settles them.
func seenThrough(lockapi.Code) bool { return true }

// isGone is for calls after which something is gone: it is, whichever attempt
// did it.
func isGone(c lockapi.Code) bool {
	return c == lockapi.CodeNotFound || c == lockapi.CodeSessionNotFound
}

// account is what the attempts of a call have shown, and may have done.
type account struct {
	answered  bool          // by a replica, whatever it said
	unsettled bool          // one may have taken effect without our having its answer
	effective bool          // one may have taken effect, answered or not
	firstSent time.Duration // clock when the first such one was sent
}

// add takes another account in.
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

// attemptError is an attempt that got no answer of the contract.
type attemptError struct {
	base string
	sent bool // false where certainly nothing was sent
	err  error
}

func (e *attemptError) Error() string { return e.base + ": " + e.err.Error() }
func (e *attemptError) Unwrap() error { return e.err }

// callError is a call that was given up because its context ended.
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

// errCut ends a call whose cut context ended before the caller's own, or whose
// own ended for that cause.
var errCut = errors.New("stout: the call was cut off")

// isHedged reports whether another replica may be asked before the first
// answers.
func (q *call) isHedged() bool { return !q.once && !q.single }

// givenUp is the error of a call whose context ended after the given failure.
func (q *call) givenUp(cause, last error) error {
	class := lockapi.CodeNoMaster
	if q.unsettled && q.method != http.MethodGet {
		class = lockapi.CodeOutcomeUnknown
	}
	return &callError{op: q.method + " " + q.path, cause: cause, class: class, last: last, silent: !q.answered}
}
