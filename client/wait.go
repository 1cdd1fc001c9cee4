package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pauses between attempts grow from firstPause to mostPause; each is drawn from
// the upper half of its range. A Retry-After is in whole seconds and a
// fail-over is faster, so pauses up to mostPause respect that advice.
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

// await waits until done is closed. If ctx ends first it returns the cause.
func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// deliver sends v on to, unless ctx ends first.
func deliver[T any](ctx context.Context, to chan<- T, v T) {
	select {
	case to <- v:
	case <-ctx.Done():
	}
}

// join returns a context that has the values of ctx and ends with ctx and with
// other. cut ends it; done ends it, too, and releases both.
func join(ctx, other context.Context) (out context.Context, cut context.CancelCauseFunc, done func()) {
	out, cut = context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cut(context.Cause(other)) })
	return out, cut, func() { stop(); cut(nil) }
}

// outlast returns a context for cleanup that lasts as long as ctx, and at least
// d from now, even if ctx has ended. cut ends it, and may be called under a
// lock: it never calls a method of ctx, which is the caller's code. done ends
// it, too, and releases ctx.
func outlast(ctx context.Context, d time.Duration) (out context.Context, cut context.CancelCauseFunc, done func()) {
	out, cut = context.WithCancelCause(context.WithoutCancel(ctx))
	if ctx.Done() == nil {
		return out, cut, func() { cut(nil) }
	}
	end := time.Now().Add(d)
	stop := context.AfterFunc(ctx, func() {
		sleep(out, time.Until(end))
		cut(nil)
	})
	return out, cut, func() { stop(); cut(nil) }
}
