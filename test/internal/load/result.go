package load

import (
	"errors"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of a histogram, a microsecond to half an hour, and its three
// significant figures.
const (
	shortest = int64(1)
	longest  = int64(30 * time.Minute / time.Microsecond)
	figures  = 3
)

// Result is the measurements of one run.
type Result struct {
	// Latency has the latencies in microseconds. See Quantile.
	Latency *hdrhistogram.Histogram
	// Elapsed is the time that the operations took: the window, or longer if
	// operations that were due in it ended after it.
	Elapsed time.Duration
	// Errors counts the failed operations, including the warm-up; FirstError is
	// the first failure.
	Errors     int64
	FirstError error
	// Missed counts the operations of an open loop that were due and had not
	// ended at the end of the run: the rate is too high for the cell.
	Missed int64
	// Uncounted counts the successful operations that are not measured.
	Uncounted int64
	// PerWorker counts the measured operations of each worker.
	PerWorker []int64
}

// Rate returns the operations per second.
func (r *Result) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Latency.TotalCount()) / r.Elapsed.Seconds()
}

// Quantile returns the latency that the share q of the operations did not
// exceed: 0.5 for the median, 1 for the longest.
func (r *Result) Quantile(q float64) time.Duration {
	return time.Duration(r.Latency.ValueAtQuantile(100*q)) * time.Microsecond
}

// recorder collects the results of all workers.
type recorder struct {
	mu   sync.Mutex
	got  Result
	last time.Time // when the last measured operation ended
	// inWindow counts all results within the window.
	inWindow int64
}

func newRecorder(workers int) *recorder {
	return &recorder{got: Result{
		Latency:   hdrhistogram.New(shortest, longest, figures),
		PerWorker: make([]int64, workers),
	}}
}

// record adds the result of one operation. Outside the window it counts
// failures only.
func (r *recorder) record(worker int, latency time.Duration, ended time.Time, err error, inWindow bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if inWindow {
		r.inWindow++
	}
	switch {
	case err != nil && !errors.Is(err, ErrNotCounted):
		r.got.Errors++
		if r.got.FirstError == nil {
			r.got.FirstError = err
		}
	case !inWindow:
	case err != nil:
		r.got.Uncounted++
	default:
		us := min(max(latency.Microseconds(), shortest), longest)
		// It fails only outside the range that the line above enforces.
		_ = r.got.Latency.RecordValue(us)
		r.got.PerWorker[worker]++
		if ended.After(r.last) {
			r.last = ended
		}
	}
}

func (r *recorder) count() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got.Latency.TotalCount()
}

// result returns the result. No worker may record any more.
func (r *recorder) result() *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.got
}
