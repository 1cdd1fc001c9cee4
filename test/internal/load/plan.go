package load

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Step does one operation and returns its latency. since is the moment from
// which the latency counts; see Timed. Calls of one worker's step never
// overlap. It must return soon after ctx ends.
type Step func(ctx context.Context, since time.Time) (time.Duration, error)

// ErrNotCounted is returned by a Step for a successful operation that is not
// one of the measured ones.
var ErrNotCounted = errors.New("the operation is not counted")

// Timed makes a Step of an operation. Its latency is the time until the
// operation ends.
func Timed(op func(context.Context) error) Step {
	return func(ctx context.Context, since time.Time) (time.Duration, error) {
		err := op(ctx)
		return time.Since(since), err
	}
}

// Plan is one run.
type Plan struct {
	Warmup   time.Duration // unmeasured load
	Duration time.Duration // of the measured window
	// Drain bounds operations that continue after the window.
	Drain time.Duration
	// Rate is the number of operations due per second, for all workers
	// together; 0 means a closed loop.
	Rate float64
}

// Hooks are called during a run. Each may be nil.
type Hooks struct {
	// Begin and End are called at the two ends of the measured window.
	Begin, End func()
	// Watch is called every WatchEvery with the run's duration and its number
	// of measured operations so far.
	Watch func(elapsed time.Duration, measured int64)
}

// WatchEvery is the interval of Hooks.Watch.
const WatchEvery = 500 * time.Millisecond

// errorPause keeps a worker with instantly failing operations out of a busy
// loop.
const errorPause = 10 * time.Millisecond

// Run runs the plan with one goroutine per worker. The error is the end of ctx;
// the result counts failed operations. Run returns within the plan's three
// times, plus the time that steps need to notice the end of their context.
func (p Plan) Run(ctx context.Context, workers []Step, hooks Hooks) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	r := &run{
		plan: p, start: began, open: began.Add(p.Warmup),
		recorder: newRecorder(len(workers)),
	}
	r.end = r.open.Add(p.Duration)
	var all sync.WaitGroup
	for i, step := range workers {
		all.Go(func() {
			// Each worker has its own context, so that workers do not contend
			// for its lock: independent clients share no context either.
			ctx, done := context.WithCancel(ctx)
			defer done()
			if p.Rate > 0 {
				r.openLoop(ctx, i, step)
			} else {
				r.closedLoop(ctx, i, step)
			}
		})
	}
	r.conduct(ctx, hooks)
	stop := time.AfterFunc(time.Until(r.end.Add(p.Drain)), cancel)
	defer stop.Stop()
	all.Wait()
	if time.Now().Before(r.end) {
		return nil, context.Cause(ctx)
	}
	return r.result(), nil
}

type run struct {
	plan             Plan
	start, open, end time.Time
	recorder         *recorder

	mu   sync.Mutex
	next int64 // in an open loop, the next operation that is due
}

func (r *run) conduct(ctx context.Context, h Hooks) {
	tick := time.NewTicker(WatchEvery)
	defer tick.Stop()
	until := func(t time.Time) {
		over := time.NewTimer(time.Until(t))
		defer over.Stop()
		for {
			select {
			case <-over.C:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				if h.Watch != nil {
					h.Watch(time.Since(r.start), r.recorder.count())
				}
			}
		}
	}
	until(r.open)
	if h.Begin != nil && ctx.Err() == nil {
		h.Begin()
	}
	until(r.end)
	if h.End != nil && ctx.Err() == nil {
		h.End()
	}
}

// closedLoop counts the operations that end within the window.
func (r *run) closedLoop(ctx context.Context, worker int, step Step) {
	for ctx.Err() == nil {
		began := time.Now()
		if !began.Before(r.end) {
			return
		}
		latency, err := step(ctx, began)
		if err != nil && ctx.Err() != nil {
			return // interrupted by the end of the run
		}
		ended := time.Now()
		r.recorder.record(worker, latency, ended, err, !ended.Before(r.open) && ended.Before(r.end))
		r.pauseAfter(ctx, err)
	}
}

// openLoop counts the operations that were due within the window, even if they
// end later: leaving out the late ones would hide the worst of them.
func (r *run) openLoop(ctx context.Context, worker int, step Step) {
	for {
		due := r.nextDue()
		if !due.Before(r.end) || !sleepUntil(ctx, due) {
			return
		}
		latency, err := step(ctx, due)
		if err != nil && ctx.Err() != nil {
			return // interrupted by the end of the run: it counts as missed
		}
		r.recorder.record(worker, latency, time.Now(), err, !due.Before(r.open))
		r.pauseAfter(ctx, err)
	}
}

// nextDue counts the next operation and returns when it is due.
func (r *run) nextDue() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.next
	r.next++
	return r.start.Add(dueAfter(n, r.plan.Rate))
}

// dueAfter returns when the n-th operation is due, relative to the start.
func dueAfter(n int64, rate float64) time.Duration {
	return time.Duration(float64(n) / rate * float64(time.Second))
}

func (r *run) pauseAfter(ctx context.Context, err error) {
	if err != nil && !errors.Is(err, ErrNotCounted) {
		sleepUntil(ctx, time.Now().Add(errorPause))
	}
}

// sleepUntil returns false if ctx ends first.
func sleepUntil(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// result returns the measurements of the run. In an open loop, an operation
// that was due in the window and neither succeeded nor failed is missed.
func (r *run) result() *Result {
	out := r.recorder.result()
	out.Elapsed = r.plan.Duration
	if r.plan.Rate > 0 {
		if late := r.recorder.last.Sub(r.open); late > out.Elapsed {
			out.Elapsed = late
		}
		out.Missed = r.due() - r.recorder.inWindow
	}
	return out
}

// due returns how many operations of an open loop were due in the window.
func (r *run) due() (n int64) {
	first := int64(r.plan.Warmup.Seconds() * r.plan.Rate)
	for i := max(0, first-1); ; i++ {
		at := r.start.Add(dueAfter(i, r.plan.Rate))
		if !at.Before(r.end) {
			return n
		}
		if !at.Before(r.open) {
			n++
		}
	}
}
