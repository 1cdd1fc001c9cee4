package metric

import (
	"slices"
	"sync/atomic"
	"time"
)

// Histogram counts durations by size, with two atomic additions each time. Its
// methods are safe for concurrent use; a nil Histogram counts nothing.
type Histogram struct {
	bounds []time.Duration
	counts []atomic.Uint64 // up to each bound, and above
	sum    atomic.Int64
}

// NewHistogram makes a histogram with the given bounds, in ascending order. It
// belongs to no Set.
func NewHistogram(bounds ...time.Duration) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts one duration. One below zero counts as zero.
func (h *Histogram) Observe(d time.Duration) {
	if h == nil {
		return
	}
	d = max(d, 0)
	i, _ := slices.BinarySearch(h.bounds, d)
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// Snapshot is a histogram's content at one moment.
type Snapshot struct {
	Count uint64
	Sum   time.Duration
	UpTo  map[time.Duration]uint64 // number of durations up to each bound
}

// Snapshot returns what was counted so far. A concurrent observation may be in
// Count and not yet in Sum.
func (h *Histogram) Snapshot() Snapshot {
	s := Snapshot{UpTo: map[time.Duration]uint64{}}
	if h == nil {
		return s
	}
	s.Sum = time.Duration(h.sum.Load())
	for i := range h.counts {
		s.Count += h.counts[i].Load()
		if i < len(h.bounds) {
			s.UpTo[h.bounds[i]] = s.Count
		}
	}
	return s
}
