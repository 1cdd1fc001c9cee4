package client

import (
	"context"
	"errors"
	"reflect"

	"github.com/stoutlock/stout/lockapi"
)

// allAtOnce sends a call to several replicas at once; each may forward it to
// the master. It is for a caller without time to try one after another. The
// first success wins, or a master's session_not_found. After another refusal,
// the other replicas may still succeed. Otherwise the error is a refusal, if
// there is one. r is the present route. The call must be repeatable any number
// of times.
func (c *caller) allAtOnce(ctx context.Context, r *route, q *call) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := c.targets.some(mostAsked)
	answers := make(chan racer, len(asked))
	for _, to := range asked {
		one := *q
		one.out = reflect.New(reflect.TypeOf(q.out).Elem()).Interface()
		e := racer{r: &route{to: to, forward: true}, q: &one}
		go func() {
			e.err = c.attempt(ctx, e.r, e.q)
			answers <- e
		}()
	}
	var failure error
	for range asked {
		e := <-answers
		if e.err == nil {
			c.targets.current.CompareAndSwap(r, e.r)
			reflect.ValueOf(q.out).Elem().Set(reflect.ValueOf(e.q.out).Elem())
			return nil
		}
		if errors.Is(e.err, lockapi.CodeSessionNotFound) {
			return e.err
		}
		_, _ = c.classify(ctx, e.r, e.q, e.err) // for the penalties
		if failure == nil || isAnswer(e.err) {
			failure = e.err
		}
	}
	return failure
}
