package client

import (
	"context"
	"reflect"
)

// allAtOnce makes a call of several replicas at once, each of which may forward
// it to the master, for a caller that has no time to try one after the other.
// The first answer that settles the call counts; r is the way that calls have
// gone so far. The error of the last is returned where none does. The call must
// be one that may arrive any number of times.
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
	var last error
	for range asked {
		e := <-answers
		if e.err == nil {
			c.targets.current.CompareAndSwap(r, e.r)
			reflect.ValueOf(q.out).Elem().Set(reflect.ValueOf(e.q.out).Elem())
			return nil
		}
		last = e.err
		if next, _ := c.judge(ctx, e.r, e.q, e.err); next == giveUp && !isNonsense(e.err) {
			return e.err
		}
	}
	return last
}
