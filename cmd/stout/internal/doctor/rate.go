package doctor

import "time"

// Sample is one look at a replica's clock, between two looks at ours.
type Sample struct {
	Sent, Received time.Duration // by our clock, which never steps
	UptimeMS       int64         // by the replica's, cut to whole milliseconds
}

// Rate is how much faster than ours a clock runs, for certain between the two:
// 0.001 is a millisecond a second.
type Rate struct{ Low, High float64 }

// RateOf finds the rate from all pairs of samples. An uptime was cut, so the
// clock stood less than a millisecond above it, at some instant between sent and
// received. It is false where nothing can be said: too few samples, a process
// that was started anew, a clock that stepped.
func RateOf(samples []Sample) (r Rate, ok bool) {
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
			low := float64(gone-time.Millisecond)/float64(most) - 1
			high := float64(gone+time.Millisecond)/float64(least) - 1
			if !ok {
				r, ok = Rate{low, high}, true
				continue
			}
			r.Low, r.High = max(r.Low, low), min(r.High, high)
		}
	}
	return r, ok && r.Low <= r.High
}

// Apart is how far two rates differ: at least and at most, both at least 0.
func (r Rate) Apart(o Rate) (least, most float64) {
	return max(0, r.Low-o.High, o.Low-r.High), max(r.High-o.Low, o.High-r.Low)
}
