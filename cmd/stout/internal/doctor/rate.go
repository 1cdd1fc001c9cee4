package doctor

import "time"

// Sample is one reading of a replica's clock, between two readings of ours.
type Sample struct {
	Sent, Received time.Duration // by our clock, which never steps
	UptimeMS       int64         // by the replica's, cut to whole milliseconds
}

// Rate is how much faster than ours a clock runs, with bounds: 0.001 is a
// millisecond per second.
type Rate struct {
	Low, High float64
	// Torn: no single rate fits all samples, so a clock stopped or stepped,
	// this one or ours. The rate then comes from the pair of samples farthest
	// from ours, as with lease.Rates.
	Torn bool
}

// RateOf computes the rate from all pairs of samples. An uptime is cut to whole
// milliseconds: at some instant between sent and received, the clock showed
// less than a millisecond more. ok is false with too few samples, or if the
// process was restarted.
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

// certain returns how far the rate differs from ours at least.
func (r Rate) certain() float64 { return max(0, r.Low, -r.High) }

// Apart returns how far two rates differ at least and at most, both at least 0.
func (r Rate) Apart(o Rate) (least, most float64) {
	return max(0, r.Low-o.High, o.Low-r.High), max(r.High-o.Low, o.High-r.Low)
}
