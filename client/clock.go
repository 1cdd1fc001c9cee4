package client

import (
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/internal/boottime"
)

// wakeEvery bounds how late the end of a lease is noticed on a caller's own
// clock: Go's timers may stand still while that clock runs.
const wakeEvery = time.Second

// clock is the clock of the leases.
type clock struct {
	now func() time.Duration
	own bool // the system's clock, which has timers
}

// timer calls a function once, some time after it was set: *time.Timer, or
// *boottime.Timer.
type timer interface {
	Reset(time.Duration) bool
	Stop() bool
}

// afterFunc makes a timer on the clock. f may be called early, so it must read
// the clock and set the timer again, to until.
func (c *clock) afterFunc(d time.Duration, f func()) timer {
	if c.own {
		return boottime.AfterFunc(d, f)
	}
	return time.AfterFunc(c.until(d), f)
}

// until returns how long to set a timer for an instant in d.
func (c *clock) until(d time.Duration) time.Duration {
	if d = max(d, 0); c.own {
		return d
	}
	return min(d, wakeEvery)
}

// instant is a time on the client's clock, safe for concurrent use.
type instant struct{ ns atomic.Int64 }

func (i *instant) get() time.Duration  { return time.Duration(i.ns.Load()) }
func (i *instant) set(d time.Duration) { i.ns.Store(int64(d)) }
