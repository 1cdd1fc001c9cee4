package call

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"

	"github.com/stoutlock/stout/lockapi"
)

// At makes one attempt of a read, at the replica at a base URL. For a DNS name it
// asks all its replicas, and one answer suffices.
func (c *Caller) At(ctx context.Context, url string, q *Call) error {
	if isName(url) {
		return c.askNamed(ctx, url, q)
	}
	e := c.router.known.Load().find(url)
	if e == nil {
		var err error
		if e, err = givenEndpoint(url, c.Scheme); err != nil {
			return err
		}
	}
	err := c.Attempt(ctx, &Route{To: e}, q)
	if isForeign(err) {
		return q.outcome(err)
	}
	return err
}

// askNamed makes one attempt of a read at each replica of a DNS name. It
// returns the first success, otherwise a refusal, otherwise all errors.
func (c *Caller) askNamed(ctx context.Context, text string, q *Call) error {
	found, err := c.finder.lookUpNow(ctx, text)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var refused error
	var failed []error
	for a := range c.askAll(ctx, q, false, found) {
		switch {
		case a.err == nil:
			q.adopt(a.q)
			return nil
		case IsAnswer(a.err):
			refused = a.err
		case isForeign(a.err):
			failed = append(failed, a.q.outcome(a.err))
		default:
			failed = append(failed, a.err)
		}
	}
	return cmp.Or(refused, errors.Join(failed...))
}

// KnownURLs returns the base URLs of the known replicas.
func (c *Caller) KnownURLs(ctx context.Context) (out []string, err error) {
	if _, err := c.Route(ctx); err != nil {
		return nil, err
	}
	for _, e := range c.router.AllKnown() {
		out = append(out, e.URL)
	}
	return out, nil
}

// askAll makes one attempt of a call at each of several replicas at once, with
// or without permission to forward it. It yields the attempts as they end.
func (c *Caller) askAll(ctx context.Context, q *Call, forward bool, to []*Endpoint) iter.Seq[attempt] {
	return func(yield func(attempt) bool) {
		ended := make(chan attempt, len(to))
		for _, e := range to {
			a := attempt{r: &Route{To: e, forward: forward}, q: q.fork()}
			go func() {
				a.err = c.Attempt(ctx, a.r, a.q)
				ended <- a
			}()
		}
		for range to {
			if !yield(<-ended) {
				return
			}
		}
	}
}

// AttemptMany sends a call to several replicas at once; each may forward it to the
// master. It is for a caller without time to try one after another. The first
// success wins, or a master's session_not_found. After another refusal, the
// other replicas may still succeed. Otherwise the error is a refusal, if there
// is one. r is the present route. The call must be repeatable any number of
// times.
func (c *Caller) AttemptMany(ctx context.Context, r *Route, q *Call) (failure error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for a := range c.askAll(ctx, q, true, c.router.some(mostAsked)) {
		switch {
		case a.err == nil:
			c.router.current.CompareAndSwap(r, a.r)
			q.adopt(a.q)
			return nil
		case IsAnswer(a.err) && errors.Is(a.err, lockapi.CodeSessionNotFound):
			return a.err
		}
		_, _ = c.classify(ctx, a.r, a.q, a.err) // for the penalties
		if failure == nil || IsAnswer(a.err) {
			failure = a.err
		}
	}
	return failure
}

// Any returns a random replica for a question that every replica can answer. It
// prefers one that is not to be avoided, has no penalty, and was given or has
// answered. Its last resort is one that was learned, has never answered and has
// a penalty. While no replica is known it waits for the DNS.
func (c *Caller) Any(ctx context.Context, avoid func(*Endpoint) bool) (found *Endpoint, err error) {
	if _, err := c.Route(ctx); err != nil {
		return nil, err
	}
	rt := c.router
	k := rt.known.Load()
	proven := func(i int) bool { return i < k.given || k.all[i].works.Load() }
	for _, free := range []func(i int) bool{
		func(i int) bool { return proven(i) && !avoid(k.all[i]) && !rt.isPunished(k.all[i]) },
		func(i int) bool { return !avoid(k.all[i]) && !rt.isPunished(k.all[i]) },
		func(i int) bool { return proven(i) && !avoid(k.all[i]) },
		proven,
		func(i int) bool { return !avoid(k.all[i]) },
	} {
		n := 0
		for i, e := range k.all {
			if !free(i) {
				continue
			}
			if n++; rand.N(n) == 0 {
				found = e
			}
		}
		if found != nil {
			break
		}
	}
	return found, nil
}

// Lost records that a connection to an endpoint has ended with err. If it could
// not be made, the endpoint is passed over; otherwise the cell may have changed.
func (c *Caller) Lost(e *Endpoint, err error) {
	if isDialError(err) {
		c.router.failed(&Route{To: e})
	} else {
		c.finder.want(soon)
	}
}
