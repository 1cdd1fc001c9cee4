package wire

import (
	"context"
	"sync"
	"time"
)

// Watch is told of an exchange of whose answer nothing has come yet.
type Watch interface {
	// Late is called when the patience is at its end, by one goroutine at a time.
	// It returns for how much longer to be patient before it is called again, 0 for
	// no more calls, and a context at whose end the exchange is to end, or nil.
	Late() (again time.Duration, under context.Context)
}

// Vigil is a watch over one exchange: its dialling and its waiting for an answer.
// The zero value watches over nothing.
type Vigil struct {
	watch Watch
	next  time.Time       // when to call Late; zero for never
	under context.Context // what Late returned
}

// NewVigil is a watch that is called first when patience is over; 0 is never.
func NewVigil(w Watch, patience time.Duration) Vigil {
	if w == nil || patience <= 0 {
		return Vigil{}
	}
	return Vigil{watch: w, next: time.Now().Add(patience)}
}

// before is when to look again: at the deadline, or when the patience is over.
func (v *Vigil) before(deadline time.Time) time.Time {
	if v.next.IsZero() || deadline.Before(v.next) {
		return deadline
	}
	return v.next
}

// late calls the watch.
func (v *Vigil) late() {
	again, under := v.watch.Late()
	v.next = time.Time{}
	if again > 0 {
		v.next = time.Now().Add(again)
	}
	if under != nil {
		v.under = under
	}
}

// ended says why the exchange is to end, if the watch had it end.
func (v *Vigil) ended() error {
	if v.under == nil {
		return nil
	}
	return v.under.Err()
}

// During keeps the vigil, by a timer, over what the caller does until it calls stop.
// cancel is called when that is to end, in a goroutine of its own.
func (v *Vigil) During(cancel func()) (stop func()) {
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
