package lease

import (
	"math"
	"time"
)

// MaxTerm bounds the term of a master lease: what a new master has to wait at
// the worst.
const MaxTerm = time.Minute

// Drift bounds how far a clock may run from true time, as a fraction: 0.01 is
// ten milliseconds in a second.
type Drift float64

// Short is how much of d, a span of true time that somebody else counts on, may
// be used by this clock: d × (1 − drift), rounded down.
func (d Drift) Short(span time.Duration) time.Duration {
	return time.Duration(math.Floor(float64(span) * (1 - float64(d))))
}

// Long is how long this clock has to wait until span of true time has passed
// for certain: span × (1 + drift), rounded up.
func (d Drift) Long(span time.Duration) time.Duration {
	return time.Duration(math.Ceil(float64(span) * (1 + float64(d))))
}

// SessionSpan is how long the server waits before it ends a session whose
// client counts ttl plainly on a clock of its own: ttl × (1 + drift)/(1 −
// drift), rounded up. All the slack is the server's.
func (d Drift) SessionSpan(ttl time.Duration) time.Duration {
	return time.Duration(math.Ceil(float64(ttl) * (1 + float64(d)) / (1 - float64(d))))
}

// Held is what the server reports of the time for which it held a keepalive:
// held × (1 − 2·drift), rounded down, so that the client's count from sending +
// held never ends after the server's.
func (d Drift) Held(held time.Duration) time.Duration {
	return max(0, time.Duration(math.Floor(float64(held)*(1-2*float64(d)))))
}
