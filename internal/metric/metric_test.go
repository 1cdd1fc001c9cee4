package metric

import (
	"maps"
	"sync"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	const ms = time.Millisecond
	h := NewHistogram(ms, 10*ms, 100*ms)
	for _, d := range []time.Duration{-ms, 0, ms, ms + 1, 10 * ms, 99 * ms, 100*ms + 1, time.Hour} {
		h.Observe(d)
	}
	want := map[time.Duration]uint64{ms: 3, 10 * ms: 5, 100 * ms: 6}
	if s := h.Snapshot(); s.Count != 8 || !maps.Equal(s.UpTo, want) || s.Sum != time.Hour+211*ms+2 {
		t.Errorf("%+v", s)
	}
	var none *Histogram
	none.Observe(ms)
	if s := none.Snapshot(); s.Count != 0 || len(s.UpTo) != 0 {
		t.Errorf("%+v", s)
	}
}

func TestHistogramUnderConcurrency(t *testing.T) {
	h := NewHistogram(time.Second)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				h.Observe(time.Millisecond)
				if s := h.Snapshot(); s.UpTo[time.Second] != s.Count {
					t.Errorf("%+v", s)
				}
			}
		})
	}
	all.Wait()
	if s := h.Snapshot(); s.Count != 8000 || s.Sum != 8*time.Second {
		t.Errorf("%+v", s)
	}
}
