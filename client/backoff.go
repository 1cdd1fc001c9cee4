package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pauses between attempts grow from firstPause to mostPause, each drawn from
// the upper half of its range. A Retry-After is whole seconds and a fail-over
// is quicker than that, so mostPause already keeps within any such advice.
const (
	firstPause = 25 * time.Millisecond
	mostPause  = time.Second
)

// backoff is the series of pauses of one call. The zero value is its start.
type backoff struct{ last time.Duration }

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, firstPause), mostPause)
	return b.last/2 + rand.N(b.last/2)
}

func (b *backoff) reset() { b.last = 0 }

// sleep pauses for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// outlast is a context that lasts as long as ctx, and at least d from now: for
// what has to be cleaned up although the caller's context has ended.
func outlast(ctx context.Context, d time.Duration) (context.Context, context.CancelCauseFunc) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	if ctx.Done() == nil {
		return out, cancel
	}
	end := time.Now().Add(d)
	stop := context.AfterFunc(ctx, func() {
		sleep(out, time.Until(end))
		cancel(nil)
	})
	return out, func(cause error) { stop(); cancel(cause) }
}
