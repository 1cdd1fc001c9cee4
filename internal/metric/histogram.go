package metric

import (
	"slices"
	"sync/atomic"
	"time"
)

// Histogram counts durations by size, which takes two atomic additions each time. Its
// methods are safe for concurrent use; one that is nil counts nothing.
type Histogram struct {
	bounds []time.Duration
	counts []atomic.Uint64 // up to each bound, and above
	sum    atomic.Int64
}

// NewHistogram makes a histogram with the given bounds, in ascending order. It is in
// no Set.
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

// Snapshot is what was counted up to a moment.
type Snapshot struct {
	Count uint64
	Sum   time.Duration
	UpTo  map[time.Duration]uint64 // how many were of a bound's size or less
}

// Snapshot is what was counted so far. What is observed meanwhile may be in
// Count and not in Sum yet.
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
