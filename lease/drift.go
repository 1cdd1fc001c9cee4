package lease

import (
	"math"
	"time"
)

// MaxTerm bounds the term of a master lease, and so the longest wait of a new
// master.
const MaxTerm = time.Minute

// Drift bounds how far a clock may run from true time, as a fraction: 0.01 is
// ten milliseconds in a second.
type Drift float64

// Short returns how much of span, a span of true time that another party counts
// on, may be used by this clock: span × (1 − drift), rounded down.
func (d Drift) Short(span time.Duration) time.Duration {
	return time.Duration(math.Floor(float64(span) * (1 - float64(d))))
}

// Long returns how long this clock must wait until span of true time has
// certainly passed: span × (1 + drift), rounded up.
func (d Drift) Long(span time.Duration) time.Duration {
	return time.Duration(math.Ceil(float64(span) * (1 + float64(d))))
}

// SessionSpan returns how long the server waits before it ends a session if the
// client counts ttl plainly on its own clock: ttl × (1 + drift)/(1 − drift),
// rounded up. All the slack is on the server's side.
func (d Drift) SessionSpan(ttl time.Duration) time.Duration {
	return time.Duration(math.Ceil(float64(ttl) * (1 + float64(d)) / (1 - float64(d))))
}

// Held returns what the server reports as the time for which it held a
// keepalive: held × (1 − 2·drift), rounded down. So the client's count from
// sending + held never ends after the server's.
func (d Drift) Held(held time.Duration) time.Duration {
	return max(0, time.Duration(math.Floor(float64(held)*(1-2*float64(d)))))
}
