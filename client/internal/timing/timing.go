// Package timing has the pauses and waits of package client. Each ends early
// with its context. Clocks and leases do not belong here.
package timing

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pauses between attempts grow from MinBackoff to MaxBackoff; each is drawn from
// the upper half of its range. A Retry-After is in whole seconds and a
// fail-over is faster, so pauses up to MaxBackoff respect that advice.
const (
	MinBackoff = 25 * time.Millisecond
	MaxBackoff = time.Second
)

// Backoff is the series of pauses of one call. The zero value is its start.
type Backoff struct{ last time.Duration }

// Next returns the next pause.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, MinBackoff), MaxBackoff)
	return b.last/2 + rand.N(b.last/2)
}

// Reset continues the series as after a pause of d; 0 begins it anew.
func (b *Backoff) Reset(d time.Duration) { b.last = d }

// Sleep pauses for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Await waits until done is closed. If ctx ends first it returns the cause.
func Await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Join returns a context that has the values of ctx and ends with ctx and with
// other. cut ends it; done ends it, too, and releases both.
func Join(ctx, other context.Context) (out context.Context, cut context.CancelCauseFunc, done func()) {
	out, cut = context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cut(context.Cause(other)) })
	return out, cut, func() { stop(); cut(nil) }
}
