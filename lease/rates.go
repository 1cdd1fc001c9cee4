package lease

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Between bounds how far the rates of two clocks may differ, as a fraction,
// where each is within drift of true time.
func (d Drift) Between() float64 { return 2 * float64(d) / (1 - float64(d)) }

// Sight is one look at another clock: it read Other at some moment after Sent
// and before Came, which are on this clock.
type Sight struct{ Sent, Came, Other time.Duration }

// Rates is what is known of how fast another clock runs beside this one, from
// looks at it. It assumes nothing of how long a message travels, nor that both
// ways take the same: what it says is certain. The zero value knows nothing. It
// is safe for concurrent use.
type Rates struct {
	mu     sync.Mutex
	origin string  // of the other clock
	sights []Sight // in order, at most mostSights
}

const (
	// mostSights at sightsApart make two minutes: long enough for an error far
	// below any drift, and as long as a clock that stood still is remembered.
	mostSights  = 128
	sightsApart = 750 * time.Millisecond
	// remembered is how old the last sight may be.
	remembered = 2 * time.Minute
	// shortest is the least time between two sights that are compared.
	shortest = 4 * time.Second
)

// Saw notes a sight of a clock that counts from origin. Where that is another
// one than before, or the clock went back, what was seen before is forgotten:
// the other end was started anew. A sight right behind the last one is not kept.
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

// Rate bounds the rate of another clock: how much it counts while this one
// counts one.
type Rate struct{ Low, High float64 }

// Difference is how far the rate is from this clock's, and how far that may be
// off, as fractions: the true difference is within err of it.
func (r Rate) Difference() (difference, err float64) {
	return (r.Low+r.High)/2 - 1, (r.High - r.Low) / 2
}

// certain is how far the rate is from this clock's at least.
func (r Rate) certain() float64 { return max(0, r.Low-1, 1-r.High) }

// Worst is the rate between those two sights between which the clocks have
// certainly run apart the most; where they have not in any, the one with the
// least error. False before there are two sights far enough apart, and where at
// now, on this clock, the last one is more than two minutes old: nothing is known
// any more of how the other runs.
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

// between is the rate between two sights. The other clock has counted what lies
// between its readings; this one at least what lies between the first answer and
// the second question, and at most what lies between the first question and the
// second answer. The last places are for the rounding of the division.
func between(a, b Sight) Rate {
	counted := float64(b.Other - a.Other)
	return Rate{
		Low:  math.Nextafter(counted/float64(b.Came-a.Sent), 0),
		High: math.Nextafter(counted/float64(b.Sent-a.Came), math.Inf(1)),
	}
}
