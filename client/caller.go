package client

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
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
	router     *router
	finder     *finder
	transports map[string]*transport // by endpoint.name
	cell       sameCell
	clock      clock
	log        *slog.Logger
	token      func(context.Context) (string, error) // nil: sends no token
	tracer     Tracer                                // nil: records no spans
	metrics    Metrics

	direct, forward headers // without and with permission to forward the call
}

// do makes a call, and repeats it while that is safe, until it is answered or
// ctx ends. It returns refusals as *lockapi.Error.
func (c *caller) do(ctx context.Context, q *call) error {
	if c.tracer == nil {
		return c.repeat(ctx, q)
	}
	under, end := c.tracer.Call(ctx, q.method, q.path)
	q.span = under
	err := c.repeat(ctx, q)
	end(err)
	return err
}

// repeat is do without a span of its own.
func (c *caller) repeat(ctx context.Context, q *call) error {
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
		if q.wait > 0 && c.clock.now()-q.sent >= mostPause {
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
	if r := c.router.pick(); r != nil {
		return r, nil
	}
	if err := c.finder.first(ctx); err != nil {
		return nil, err
	}
	return c.router.pick(), nil
}

// findMaster finds the master by a read before a call that is not hedged.
func (c *caller) findMaster(ctx context.Context, q *call) error {
	if q.isHedged() {
		return nil
	}
	r, err := c.pick(ctx)
	if err != nil || r.heard.Load() != 0 || !c.router.hasOther(r) {
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
		c.router.failed(r)
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
			c.router.failed(r)
		}
		if q.once && q.unsettled {
			return giveUp, nil
		}
		return retry, nil
	}
	switch refused.Code {
	case lockapi.CodeNotMaster:
		if to := c.router.redirected(r, refused.Master); to != nil {
			return redirect, to
		}
		return retry, nil
	case lockapi.CodeNoMaster:
		c.router.skip(r)
		return retry, nil
	case lockapi.CodeTooMany:
		// Another request adds to the load, so the caller decides. Calls
		// that free a quota are repeated.
		if q.method == http.MethodDelete {
			return retry, nil
		}
	case lockapi.CodeOutcomeUnknown:
		c.router.skip(r)
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
		c.router.skip(r) // others may answer better; r is not asked in a loop
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
	q.sent = sent
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
	switch {
	case isAnswer(err) || isForeign(err):
		c.router.absolve(r.to)
		return true
	case !errors.Is(err, errNoToken) && !q.overdue && c.finder.ctx.Err() == nil:
		c.router.failed(r)
	}
	return false
}

const mostRetryAfter = 24 * 60 * 60 // seconds

// exchange makes one HTTP round trip and checks its answer, which must arrive
// within the given time.
func (c *caller) exchange(ctx context.Context, r *route, q *call, within time.Duration) error {
	if q.media != "" {
		return c.openStream(ctx, r, q, within)
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer putBuffer(buf)
	a, err := c.roundTrip(ctx, r, q, within, buf)
	if err != nil {
		return &attemptError{base: r.to.base, sent: !neverSent(err), err: err}
	}
	if err := c.cell.check(r.to.base, q, a.StatusCode, a.Header); err != nil {
		return err
	}
	if a.StatusCode >= 300 {
		err := c.refusal(r, &a)
		if wrong := q.wrongCurrent(err); wrong != "" {
			err = lockapi.Errorf(lockapi.CodeInternal, "%s refused %s %s with %s", r.to.base, q.method, q.path, wrong)
		}
		return err
	}
	stale := a.Header.Get(lockapi.HeaderStale) != ""
	if wrong := q.read(&a, stale); wrong != "" {
		return lockapi.Errorf(lockapi.CodeInternal, "%s answered %s %s with %s", r.to.base, q.method, q.path, wrong)
	}
	c.router.answered(r, a.Header.Get(lockapi.HeaderMaster))
	if !q.any && !stale {
		r.answered(c.clock.now(), q)
	}
	return nil
}

// read decodes a successful answer. It describes what is wrong with it, or
// returns "".
func (q *call) read(a *wire.Answer, stale bool) string {
	if wrong := q.verify(a.StatusCode, stale); wrong != "" || q.out == nil {
		return wrong
	}
	if err := decode(a.Body, q.out); err != nil {
		return "unexpected JSON: " + err.Error()
	}
	if d, ok := q.out.(dated); ok {
		revision, err := strconv.ParseUint(a.Header.Get(lockapi.HeaderRevision), 10, 64)
		if err != nil || revision > lockapi.MaxToken {
			return "no revision in the header " + lockapi.HeaderRevision
		}
		d.date(revision)
	}
	if q.check == nil {
		return ""
	}
	return q.check(q)
}

// refusal decodes an answer other than 2xx. An answer that is not a problem
// document of the contract comes from a proxy or gateway, which may have passed
// the call on; gateways, too, answer in JSON, with codes of their own.
func (c *caller) refusal(r *route, a *wire.Answer) error {
	var p lockapi.Problem
	if decode(a.Body, &p) != nil || !p.Code.Valid() || p.Code.Status() != a.StatusCode {
		code := lockapi.CodeInternal
		switch a.StatusCode {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			code = lockapi.CodeOutcomeUnknown
		}
		return &foreignAnswer{lockapi.Errorf(code, "%s answered %d %s, which is not an answer of a replica; check the base URL", r.to.base, a.StatusCode, http.StatusText(a.StatusCode))}
	}
	e := p.Err()
	if n, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = min(max(n, 0), mostRetryAfter)
	}
	if n, err := strconv.ParseUint(a.Header.Get(lockapi.HeaderRevision), 10, 64); err == nil && e.Code == lockapi.CodeNotFound {
		e.Revision = n
	}
	e.DelayRemainingMS = max(e.DelayRemainingMS, 0)
	switch e.Code {
	case lockapi.CodeNotMaster, lockapi.CodeNoMaster, lockapi.CodeOutcomeUnknown:
		// classify decides where to go.
	default:
		c.router.answered(r, a.Header.Get(lockapi.HeaderMaster))
	}
	return e
}
