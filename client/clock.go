package client

import (
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/internal/boottime"
)

// wakeEvery bounds how late the end of a lease is noticed on a clock that is
// the caller's own: Go's timers may stand still while that goes on.
const wakeEvery = time.Second

// clock is what leases are counted on.
type clock struct {
	now func() time.Duration
	own bool // it is the system's, for which there are timers
}

// timer calls a function once, some time after it was set: *time.Timer, or
// *boottime.Timer.
type timer interface {
	Reset(time.Duration) bool
	Stop() bool
}

// afterFunc makes a timer by the clock, for a function that looks at the clock
// and sets the timer again, to until: it may be called early.
func (c *clock) afterFunc(d time.Duration, f func()) timer {
	if c.own {
		return boottime.AfterFunc(d, f)
	}
	return time.AfterFunc(c.until(d), f)
}

// until is for how long to set a timer of the clock for an instant in d.
func (c *clock) until(d time.Duration) time.Duration {
	if d = max(d, 0); c.own {
		return d
	}
	return min(d, wakeEvery)
}

// instant is one on the client's clock, safe for concurrent use.
type instant struct{ ns atomic.Int64 }

func (i *instant) get() time.Duration  { return time.Duration(i.ns.Load()) }
func (i *instant) set(d time.Duration) { i.ns.Store(int64(d)) }
