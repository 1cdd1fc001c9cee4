package service

import (
	"context"
	"time"
)

// The intervals at which Late asks to be woken, and the delay that it
// tolerates.
const (
	tick     = 20 * time.Millisecond
	lateOver = 200 * time.Millisecond
)

// Late records, until ctx ends, when this process was woken too late.
func Late(ctx context.Context, now func() time.Duration) (late []Span) {
	for last := now(); ctx.Err() == nil; {
		time.Sleep(tick)
		at := now()
		if at-last-tick > lateOver {
			late = append(late, Span{last, at})
		}
		last = at
	}
	return late
}
