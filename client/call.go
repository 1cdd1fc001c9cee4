package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stoutlock/stout/client/internal/wire"
	"github.com/stoutlock/stout/lockapi"
)

const (
	// answerTime is how long a replica may take for an answer, beyond the time
	// that the call asks it to wait.
	answerTime = 5 * time.Second
	// mostHops is how many 421 in a row are followed without a pause.
	mostHops = 3
)

// call is one call of the API, with what its attempts have shown so far.
type call struct {
	method string
	path   string
	query  string
	body   []byte
	key    string             // Idempotency-Key
	out    any                // where a 2xx answer's JSON goes; nil to ignore it
	wait   time.Duration      // for how long the server may hold it in good order
	late   time.Duration      // how late its answer may be; 0 stands for answerTime
	once   bool               // must not be sent again after it may have taken effect
	single bool               // must not be under way twice at a time, so is not hedged
	any    bool               // any replica may take it and ask the master itself
	stale  bool               // what may be out of date will do
	cut    context.Context    // if set, attempts run under it rather than the caller's context
	status int                // of success; 0 stands for any 2xx
	check  func(*call) string // says what is wrong with out, given want; may be nil
	want   wanted

	overdue  bool // the last attempt's answer was late, from a master that gives others
	answered bool // by a replica, whatever it said
	effect
	hedge hedge // of the attempt under way; its zero value hedges nothing
}

// effect is what the attempts of a call may have done.
type effect struct {
	unsettled bool          // one may have taken effect without our having its answer
	effective bool          // one may have taken effect, answered or not
	firstSent time.Duration // clock when the first such one was sent
}

// add takes another account in.
func (e *effect) add(o effect) {
	if !o.effective {
		return
	}
	if !e.effective || o.firstSent < e.firstSent {
		e.firstSent = o.firstSent
	}
	e.effective, e.unsettled = true, e.unsettled || o.unsettled
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

// errCut ends a call whose cut context ended before the caller's own, or whose own
// ended for that cause.
var errCut = errors.New("stout: the call was cut off")

// do makes a call, again and again where that is safe, until it is answered or
// ctx ends. Refusals come back as *lockapi.Error.
func (c *Client) do(ctx context.Context, q *call) error {
	var (
		pause backoff
		last  error
		hops  int
	)
	under := ctx
	if q.cut != nil {
		under = q.cut
	}
	if err := c.findMaster(under, q); err != nil {
		last = err
	}
	for {
		if ctx.Err() != nil && context.Cause(ctx) != errCut {
			return q.givenUp(context.Cause(ctx), last)
		}
		if under.Err() != nil {
			return errCut
		}
		r := c.targets.pick()
		next, err := c.hedged(under, r, q)
		if next == giveUp {
			return q.outcome(err)
		}
		last = err
		c.log.Debug("stout: attempt failed", "method", q.method, "path", q.path, "replica", r.to.base, "error", err)
		if hops++; next == redirect && hops <= mostHops {
			continue
		}
		hops = 0
		pauseCall(ctx, under, pause.next())
	}
}

// isHedged reports whether another replica may be asked before the first answers.
func (q *call) isHedged() bool { return !q.once && !q.single }

// findMaster finds the master by a read before a call that is not hedged.
func (c *Client) findMaster(ctx context.Context, q *call) error {
	r := c.targets.pick()
	if q.isHedged() || r.heard.Load() != 0 || !c.targets.hasOther(r) {
		return nil
	}
	return c.do(ctx, &call{method: http.MethodGet, path: lockapi.RouteLocks, query: "limit=1", out: new(lockapi.LockList)})
}

// pauseCall sleeps for d, or until either context ends.
func pauseCall(ctx, under context.Context, d time.Duration) {
	if under != ctx {
		both, _, done := join(ctx, under)
		defer done()
		ctx = both
	}
	sleep(ctx, d)
}

// givenUp is the error of a call whose context ended after the given failure.
func (q *call) givenUp(cause, last error) error {
	class := lockapi.CodeNoMaster
	if q.unsettled && q.method != http.MethodGet {
		class = lockapi.CodeOutcomeUnknown
	}
	return &callError{op: q.method + " " + q.path, cause: cause, class: class, last: last, silent: !q.answered}
}

// verdict says what follows a failed attempt.
type verdict int

const (
	giveUp   verdict = iota // the error, or nil, is the call's outcome
	retry                   // try again, after a pause
	redirect                // try again at once, elsewhere
)

// judge turns an attempt's failure into what to do next, with where to where that is
// redirect, and lets the choice of replica learn from it. ctx is the one that the
// attempt ran under.
func (c *Client) judge(ctx context.Context, r *route, q *call, err error) (verdict, *route) {
	var refused *lockapi.Error
	if !errors.As(err, &refused) {
		if ctx.Err() != nil {
			return retry, nil // the attempt was cut short; the replica is not to blame
		}
		if !q.overdue {
			c.targets.failed(r)
		}
		if q.once && q.unsettled {
			return giveUp, nil
		}
		return retry, nil
	}
	switch refused.Code {
	case lockapi.CodeNotMaster:
		if to := c.targets.redirected(r, refused.Master); to != nil {
			return redirect, to
		}
		return retry, nil
	case lockapi.CodeNoMaster:
		c.targets.skip(r)
		return retry, nil
	case lockapi.CodeTooMany:
		// To ask again for more adds to the load; that is the caller's to decide.
		// What makes room is seen through.
		if q.method == http.MethodDelete {
			return retry, nil
		}
	case lockapi.CodeOutcomeUnknown:
		c.targets.skip(r)
		if q.once {
			return giveUp, nil
		}
		return retry, nil
	case lockapi.CodeBusy:
		if q.unsettled { // what is not committed yet may be the work of an attempt before
			return retry, nil
		}
	}
	if isNonsense(err) {
		c.targets.skip(r) // others may answer better; r is not asked in a loop
	}
	return giveUp, nil
}

// attempt sends a call once, over route r. The error is a *lockapi.Error where
// the cell has answered, a *foreignAnswer where somebody else has, and an *attemptError
// where nobody has.
//
// A master that has answered another call since this one's answer was due is
// busy, not gone. To punish it for that would send all the sessions of the
// client to a replica that can but name the same master again.
func (c *Client) attempt(ctx context.Context, r *route, q *call) error {
	late := q.late
	if late == 0 {
		late = answerTime
	}
	sent := c.now()
	q.hedge.sent = sent
	err := c.exchange(ctx, r, q, q.wait+late)
	q.overdue = errors.Is(err, wire.ErrLate) && r.alive(c.now(), late)
	q.answered = q.answered || isAnswer(err)
	q.add(effect{effective: mayHaveTakenEffect(err), unsettled: err != nil, firstSent: sent})
	return err
}

// mayHaveTakenEffect says whether an attempt that ended so may have done its
// work. A refusal has not, except for those that leave it open.
func mayHaveTakenEffect(err error) bool {
	if err == nil {
		return true
	}
	if failed, ok := errors.AsType[*attemptError](err); ok {
		return failed.sent
	}
	return errors.Is(err, lockapi.CodeOutcomeUnknown) || errors.Is(err, lockapi.CodeInternal)
}
