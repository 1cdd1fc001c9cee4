package wire

import (
	"context"
	"sync"
	"time"
)

// Hedger is notified of an exchange without an answer so far: it may ask
// another replica.
type Hedger interface {
	// Late is called when the patience has ended, by one goroutine at a time.
	// again is how long to wait before the next call, 0 for no more calls. The
	// exchange ends with under, unless that is nil.
	Late() (again time.Duration, under context.Context)
}

// Watchdog calls a Hedger while one exchange dials or waits for an answer. The
// zero value never does.
type Watchdog struct {
	hedger Hedger
	next   time.Time       // when to call Late; zero for never
	under  context.Context // what Late returned
}

// NewWatchdog returns a watchdog that first calls h after patience; 0 means
// never.
func NewWatchdog(h Hedger, patience time.Duration) Watchdog {
	if h == nil || patience <= 0 {
		return Watchdog{}
	}
	return Watchdog{hedger: h, next: time.Now().Add(patience)}
}

// before returns the deadline, or the next call of the hedger if that is
// earlier.
func (v *Watchdog) before(deadline time.Time) time.Time {
	if v.next.IsZero() || deadline.Before(v.next) {
		return deadline
	}
	return v.next
}

// late calls the hedger.
func (v *Watchdog) late() {
	again, under := v.hedger.Late()
	v.next = time.Time{}
	if again > 0 {
		v.next = time.Now().Add(again)
	}
	if under != nil {
		v.under = under
	}
}

// ended returns why the exchange must end, if the hedger has ended it.
func (v *Watchdog) ended() error {
	if v.under == nil {
		return nil
	}
	return v.under.Err()
}

// During runs the watchdog on a timer until the caller calls stop. If the
// hedger ends the exchange, cancel is called in a goroutine of its own.
func (v *Watchdog) During(cancel func()) (stop func()) {
	if v.next.IsZero() && v.under == nil {
		return func() {}
	}
	var mu sync.Mutex
	stopped, unlink := false, func() bool { return true }
	follow := func() {
		if v.under != nil {
			unlink = context.AfterFunc(v.under, cancel)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	follow()
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(v.before(time.Now().Add(time.Hour))), func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped || v.next.IsZero() {
			return
		}
		unlink()
		v.late()
		follow()
		if !v.next.IsZero() {
			timer.Reset(time.Until(v.next))
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
		unlink()
	}
}
