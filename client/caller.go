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
	// answerTime is how long a replica may take for an answer, beyond the time
	// that the call asks it to wait.
	answerTime = 5 * time.Second
	// mostHops is how many 421 in a row are followed without a pause.
	mostHops = 3
)

// caller makes calls, of replicas that it chooses: again and again where that
// is safe, of several at once where one is silent. It is safe for concurrent
// use.
type caller struct {
	exchanger
	targets *targets
	finder  *finder
	cell    sameCell
	clock   clock
	log     *slog.Logger
}

// do makes a call, again and again where that is safe, until it is answered or
// ctx ends. Refusals come back as *lockapi.Error.
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
			pause.reset() // it waited as it should, and something on the way ended that
		}
		if hops++; next == redirect && hops <= mostHops {
			continue
		}
		hops = 0
		pauseCall(ctx, under, pause.next())
	}
}

// pick is the route to use now. Where no replica is known it waits for the DNS.
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

// verdict says what follows a failed attempt.
type verdict int

const (
	giveUp   verdict = iota // the error, or nil, is the call's outcome
	retry                   // try again, after a pause
	redirect                // try again at once, elsewhere
)

// classify turns an attempt's failure into what to do next, with where to where
// that is redirect, and lets the choice of replica learn from it. ctx is the
// one that the attempt ran under.
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
		// To ask again for more adds to the load; that is the caller's to
		// decide. What makes room is seen through.
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
// the cell has answered, a *foreignAnswer where somebody else has, and an
// *attemptError where nobody has.
//
// A master that has answered another call since this one's answer was due is
// busy, not gone. To punish it for that would send all the sessions of the
// client to a replica that can but name the same master again. The second time in
// a row it is punished: the link to it may carry short answers only.
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
// credential, and reports whether it answers. Any answer ends its penalty, a
// refusal or a proxy's too, and silence begins one.
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
