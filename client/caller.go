package client

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/stoutlock/stout/client/internal/wire"
	"github.com/stoutlock/stout/lockapi"
)

const (
	// answerTime bounds the time until a replica's answer, beyond the time that
	// the call asks it to wait.
	answerTime = 5 * time.Second
	// mostHops bounds how many 421 in a row are followed without a pause.
	mostHops = 3
)

// caller makes calls to replicas that it chooses. It repeats a call while that
// is safe, and asks several replicas if one is silent. It is safe for
// concurrent use.
type caller struct {
	exchanger
	targets *targets
	finder  *finder
	cell    sameCell
	clock   clock
	log     *slog.Logger
}

// do makes a call, and repeats it while that is safe, until it is answered or
// ctx ends. It returns refusals as *lockapi.Error.
func (c *caller) do(ctx context.Context, q *call) error {
	if c.tracer != nil {
		return c.traced(ctx, q)
	}
	return c.see(ctx, q)
}

// see is do without a span of its own.
func (c *caller) see(ctx context.Context, q *call) error {
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
		next, at := retry, ""
		r, err := c.pick(under)
		if err == nil {
			at = r.to.base
			next, err = c.hedged(under, r, q)
		}
		if next == giveUp {
			return q.outcome(err)
		}
		last = err
		c.log.Debug("stout: attempt failed", "method", q.method, "path", q.path, "replica", at, "error", err)
		if q.renew != nil {
			q.renew(q)
		}
		if q.wait > 0 && c.clock.now()-q.hedge.sent >= mostPause {
			pause.reset() // it waited as intended; something on the way ended it
		}
		if hops++; next == redirect && hops <= mostHops {
			continue
		}
		hops = 0
		pauseCall(ctx, under, pause.next())
	}
}

// pick returns the route to use now. While no replica is known it waits for the
// DNS.
func (c *caller) pick(ctx context.Context) (*route, error) {
	if r := c.targets.pick(); r != nil {
		return r, nil
	}
	if err := c.finder.first(ctx); err != nil {
		return nil, err
	}
	return c.targets.pick(), nil
}

// findMaster finds the master by a read before a call that is not hedged.
func (c *caller) findMaster(ctx context.Context, q *call) error {
	if q.isHedged() {
		return nil
	}
	r, err := c.pick(ctx)
	if err != nil || r.heard.Load() != 0 || !c.targets.hasOther(r) {
		return err
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

// verdict is what follows a failed attempt.
type verdict int

const (
	giveUp   verdict = iota // the error, or nil, is the call's outcome
	retry                   // try again, after a pause
	redirect                // try again at once, elsewhere
)

// classify decides what follows an attempt's failure, and updates the choice of
// replica. With redirect it also returns the next route. ctx is the context of
// the attempt.
func (c *caller) classify(ctx context.Context, r *route, q *call, err error) (verdict, *route) {
	if other, all := c.isStrange(err); other {
		c.targets.failed(r)
		if all {
			return giveUp, nil
		}
		return retry, nil
	}
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
		// Another request adds to the load, so the caller decides. Calls
		// that free a quota are repeated.
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
		if q.unsettled { // the uncommitted change may come from an earlier attempt
			return retry, nil
		}
	}
	if isNonsense(err) {
		c.targets.skip(r) // others may answer better; r is not asked in a loop
	}
	return giveUp, nil
}

// attempt sends a call once, over route r. The error is a *lockapi.Error if the
// cell answered, a *foreignAnswer if something else did, and an *attemptError
// if there was no answer.
//
// A master that has answered another call since this answer was due is busy,
// not gone. A penalty would send all the client's sessions to a replica that
// can only name the same master again. The second time in a row there is a
// penalty: the link may carry short answers only.
func (c *caller) attempt(ctx context.Context, r *route, q *call) error {
	late := q.late
	if late == 0 {
		late = answerTime
	}
	sent := c.clock.now()
	q.hedge.sent = sent
	err := c.exchange(ctx, r, q, q.wait+late)
	q.overdue = !q.overdue && errors.Is(err, wire.ErrLate) && r.alive(c.clock.now(), late)
	q.add(account{answered: isAnswer(err), effective: mayHaveTakenEffect(err), unsettled: err != nil, firstSent: sent})
	return err
}

// probe asks an endpoint whether it is ready, which needs no master and no
// credential, and reports whether it answers. Any answer ends its penalty, even
// a refusal or a proxy's, and silence begins one.
func (c *caller) probe(r *route, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(c.finder.ctx, 2*within) // for the credential, too
	defer cancel()
	q := call{method: http.MethodGet, path: lockapi.RouteReady, any: true, late: within}
	err := c.attempt(ctx, r, &q)
	switch _, unsent := errors.AsType[*unsentError](err); {
	case isAnswer(err) || isForeign(err):
		c.targets.absolve(r.to)
		return true
	case !unsent && !q.overdue && c.finder.ctx.Err() == nil:
		c.targets.failed(r)
	}
	return false
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
