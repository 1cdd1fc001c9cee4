// Package histogram counts how long things took, for whoever shows it. It costs
// two atomic additions each time, and imports nothing of a metrics library.
package histogram

import (
	"slices"
	"sync/atomic"
	"time"
)

// Histogram counts durations by size. Its methods are safe for concurrent use;
// one that is nil counts nothing.
type Histogram struct {
	bounds []time.Duration
	counts []atomic.Uint64 // up to each bound, and above
	sum    atomic.Int64
}

// Bounds for the stages of a write, and for the steps of a fail-over.
var (
	Stages = []time.Duration{
		10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
		time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second,
	}
	Steps = []time.Duration{
		time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
		250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
	}
)

// New makes a histogram with the given bounds, in ascending order.
func New(bounds ...time.Duration) *Histogram {
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
