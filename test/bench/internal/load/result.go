package load

import (
	"errors"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Bounds of what a histogram tells apart: a microsecond to half an hour, with
// three significant figures.
const (
	shortest = int64(1)
	longest  = int64(30 * time.Minute / time.Microsecond)
	figures  = 3
)

// Result is what one run has measured.
type Result struct {
	// Latency has the latencies in microseconds. See Quantile.
	Latency *hdrhistogram.Histogram
	// Elapsed is the time that the operations took: the window, or longer
	// where operations that were due in it ended after it.
	Elapsed time.Duration
	// Errors counts the operations that failed, in the warm-up too; FirstError
	// is the first of them.
	Errors     int64
	FirstError error
	// Missed counts the operations of an open loop that were due and had not
	// ended when the run was over: the rate is more than the cell can take.
	Missed int64
	// Uncounted are the operations that went well but are not measured.
	Uncounted int64
	// PerWorker counts the measured operations of each worker.
	PerWorker []int64
}

// Rate is the operations per second.
func (r *Result) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Latency.TotalCount()) / r.Elapsed.Seconds()
}

// Quantile is the latency that the share q of the operations did not exceed:
// 0.5 for the median, 1 for the longest.
func (r *Result) Quantile(q float64) time.Duration {
	return time.Duration(r.Latency.ValueAtQuantile(100*q)) * time.Microsecond
}

// recorder gathers the outcomes of all workers.
type recorder struct {
	mu   sync.Mutex
	got  Result
	last time.Time // when the last measured operation ended
	// inWindow counts all outcomes that belong to the window.
	inWindow int64
}

func newRecorder(workers int) *recorder {
	return &recorder{got: Result{
		Latency:   hdrhistogram.New(shortest, longest, figures),
		PerWorker: make([]int64, workers),
	}}
}

// record takes the outcome of one operation. Outside of the window only
// failures are of interest.
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
		// It fails only out of the bounds that the line above enforces.
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

// result is called when no worker records any more.
func (r *recorder) result() *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.got
}
