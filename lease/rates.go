package lease

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Between bounds how far the rates of two clocks may differ, as a fraction, if
// each is within drift of true time.
func (d Drift) Between() float64 { return 2 * float64(d) / (1 - float64(d)) }

// Sight is one reading of another clock: that clock showed Other at a moment
// after Sent and before Came. This clock measured Sent and Came.
type Sight struct{ Sent, Came, Other time.Duration }

// Rates bounds how fast another clock runs compared with this one, from sights
// of it. It makes no assumption about how long a message travels, or that both
// ways take the same time: its bounds are certain. The zero value has no
// sights. It is safe for concurrent use.
type Rates struct {
	mu     sync.Mutex
	origin string  // of the other clock
	sights []Sight // in order, at most mostSights
}

const (
	// mostSights sights, each sightsApart from the next, cover two minutes.
	// This is long enough for an error far below any drift, and is also how
	// long a pause of the other clock is remembered.
	mostSights  = 128
	sightsApart = 750 * time.Millisecond
	// remembered is the maximum age of the last sight.
	remembered = 2 * time.Minute
	// shortest is the minimum time between two sights that are compared.
	shortest = 4 * time.Second
)

// Saw records a sight of a clock that counts from origin. If the origin has
// changed, or the clock went back, the other end was restarted: Saw forgets the
// earlier sights. It drops a sight that follows the last one too closely.
func (r *Rates) Saw(origin string, s Sight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.sights); n > 0 {
		last := r.sights[n-1]
		switch {
		case origin != r.origin || s.Other < last.Other && s.Sent >= last.Came:
			r.sights = r.sights[:0]
		case s.Sent < last.Came+sightsApart:
			return
		}
	}
	if len(r.sights) == mostSights {
		r.sights = slices.Delete(r.sights, 0, 1)
	}
	r.origin, r.sights = origin, append(r.sights, s)
}

// Rate bounds the rate of another clock: how much it counts while this clock
// counts one.
type Rate struct{ Low, High float64 }

// Difference returns the difference between the rate and this clock's, and its
// error bound, as fractions: the true difference is within err of it.
func (r Rate) Difference() (difference, err float64) {
	return (r.Low+r.High)/2 - 1, (r.High - r.Low) / 2
}

// certain returns the least difference between the rate and this clock's.
func (r Rate) certain() float64 { return max(0, r.Low-1, 1-r.High) }

// Worst returns the rate between the two sights between which the clocks have
// certainly drifted apart the most. If they have not certainly drifted in any
// pair, it returns the rate with the smallest error. It returns false until two
// sights are far enough apart, and when the last sight is more than two minutes
// old at now, on this clock.
func (r *Rates) Worst(now time.Duration) (worst Rate, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.sights); n == 0 || now-r.sights[n-1].Came > remembered {
		return worst, false
	}
	for i, b := range r.sights {
		for _, a := range r.sights[:i] {
			if b.Sent-a.Came < shortest {
				break
			}
			rate := between(a, b)
			more := rate.certain() - worst.certain()
			if !ok || more > 0 || more == 0 && rate.High-rate.Low < worst.High-worst.Low {
				worst, ok = rate, true
			}
		}
	}
	return worst, ok
}

// between returns the rate between two sights. The other clock has counted the
// difference of its readings. This clock has counted at least the time between
// the first answer and the second question, and at most the time between the
// first question and the second answer. Nextafter covers the rounding of the
// division.
func between(a, b Sight) Rate {
	counted := float64(b.Other - a.Other)
	return Rate{
		Low:  math.Nextafter(counted/float64(b.Came-a.Sent), 0),
		High: math.Nextafter(counted/float64(b.Sent-a.Came), math.Inf(1)),
	}
}
