package doctor

import "time"

// Sample is one look at a replica's clock, between two looks at ours.
type Sample struct {
	Sent, Received time.Duration // by our clock, which never steps
	UptimeMS       int64         // by the replica's, cut to whole milliseconds
}

// Rate is how much faster than ours a clock runs, for certain between the two:
// 0.001 is a millisecond a second.
type Rate struct {
	Low, High float64
	// Torn: no one rate fits all that was seen, so that a clock stood still or
	// stepped meanwhile, this one or ours. It is then that of the pair of looks
	// that is certainly the farthest from ours, as with lease.Rates.
	Torn bool
}

// RateOf finds the rate from all pairs of samples. An uptime was cut, so the
// clock stood less than a millisecond above it, at some instant between sent and
// received. It is false where nothing can be said: too few samples, or a process
// that was started anew.
func RateOf(samples []Sample) (r Rate, ok bool) {
	var worst Rate
	for i, a := range samples {
		for _, b := range samples[i+1:] {
			least, most := b.Sent-a.Received, b.Received-a.Sent
			if b.UptimeMS < a.UptimeMS {
				return Rate{}, false
			}
			if least <= 0 {
				continue
			}
			gone := time.Duration(b.UptimeMS-a.UptimeMS) * time.Millisecond
			one := Rate{Low: float64(gone-time.Millisecond)/float64(most) - 1, High: float64(gone+time.Millisecond)/float64(least) - 1}
			if !ok {
				r, worst, ok = one, one, true
				continue
			}
			r.Low, r.High = max(r.Low, one.Low), min(r.High, one.High)
			if one.certain() > worst.certain() {
				worst = one
			}
		}
	}
	if r.Low > r.High {
		worst.Torn = true
		return worst, ok
	}
	return r, ok
}

// certain is how far the rate is from ours at least.
func (r Rate) certain() float64 { return max(0, r.Low, -r.High) }

// Apart is how far two rates differ: at least and at most, both at least 0.
func (r Rate) Apart(o Rate) (least, most float64) {
	return max(0, r.Low-o.High, o.Low-r.High), max(r.High-o.Low, o.High-r.Low)
}
