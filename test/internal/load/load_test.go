package load

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// stalling returns an operation of 1 ms that stalls once, for a second.
func stalling(at time.Time) Step {
	stalled := false
	return Timed(func(context.Context) error {
		d := time.Millisecond
		if !stalled && !time.Now().Before(at) {
			stalled, d = true, time.Second
		}
		time.Sleep(d)
		return nil
	})
}

func mustRun(t *testing.T, p Plan, steps ...Step) *Result {
	t.Helper()
	r, err := p.Run(t.Context(), steps, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// near reports whether got is want within the histogram's precision and one
// step.
func near(got, want time.Duration) bool {
	return got >= want-want/100-time.Millisecond && got <= want+want/100+time.Millisecond
}

// TestOpenLoopChargesTheStall: a stall of one second in ten. The closed loop
// shows one slow operation and a good p99; the open loop charges the stall to
// all operations that were due during it.
func TestOpenLoopChargesTheStall(t *testing.T) {
	plan := Plan{Warmup: time.Second, Duration: 10 * time.Second, Drain: 5 * time.Second}
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, plan, stalling(time.Now().Add(5*time.Second)))
		if got := r.Quantile(0.99); !near(got, time.Millisecond) {
			t.Errorf("closed loop: p99 is %v, want 1ms", got)
		}
		if got := r.Quantile(1); !near(got, time.Second) {
			t.Errorf("closed loop: the longest is %v, want 1s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		plan.Rate = 100
		r := mustRun(t, plan, stalling(time.Now().Add(5*time.Second)))
		if got := r.Latency.TotalCount(); got != 1000 {
			t.Errorf("open loop: %d operations, want 1000", got)
		}
		// The 100 operations due in the stall wait from 1 s down to 0, so 5 %
		// of the thousand wait for half a second or more.
		if got := r.Quantile(0.95); got < 400*time.Millisecond || got > 600*time.Millisecond {
			t.Errorf("open loop: p95 is %v, want about 500ms", got)
		}
		if got := r.Quantile(0.5); !near(got, time.Millisecond) {
			t.Errorf("open loop: the median is %v, want 1ms", got)
		}
		if r.Missed != 0 || r.Errors != 0 {
			t.Errorf("open loop: %d missed, %d errors", r.Missed, r.Errors)
		}
	})
}

// TestOpenLoopTellsOverload: a rate of twice the worker's capacity. Half of the
// due operations are missed, or late if the drain is long enough; the reported
// rate is the achieved one.
func TestOpenLoopTellsOverload(t *testing.T) {
	busy := Timed(func(ctx context.Context) error {
		select {
		case <-time.After(10 * time.Millisecond):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{Duration: 10 * time.Second, Rate: 200}, busy)
		if done := r.Latency.TotalCount(); done < 998 || done > 1001 {
			t.Errorf("%d done, want about 1000", done)
		}
		if r.Missed < 990 {
			t.Errorf("%d missed, want about 1000", r.Missed)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{Duration: 10 * time.Second, Rate: 200, Drain: time.Minute}, busy)
		if done := r.Latency.TotalCount(); done != 2000 || r.Missed != 0 {
			t.Errorf("%d done, %d missed; want 2000 and 0", done, r.Missed)
		}
		if got := r.Rate(); got < 99 || got > 101 {
			t.Errorf("the rate is %.1f/s, want 100/s: the operations took 20 s", got)
		}
		if got := r.Quantile(1); !near(got, 10*time.Second) {
			t.Errorf("the longest is %v, want 10s: the last was due at 10 s and done at 20 s", got)
		}
	})
}

func TestClosedLoopCountsTheWindowOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := func(d time.Duration) Step {
			return Timed(func(context.Context) error { time.Sleep(d); return nil })
		}
		var began, ended, watched time.Duration
		start := time.Now()
		plan := Plan{Warmup: 2 * time.Second, Duration: 4 * time.Second, Drain: time.Second}
		r, err := plan.Run(t.Context(), []Step{step(10 * time.Millisecond), step(20 * time.Millisecond)}, Hooks{
			Begin: func() { began = time.Since(start) },
			End:   func() { ended = time.Since(start) },
			Watch: func(elapsed time.Duration, _ int64) { watched = elapsed },
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.PerWorker[0] != 400 || r.PerWorker[1] != 200 {
			t.Errorf("operations per worker: %v, want 400 and 200", r.PerWorker)
		}
		if r.Rate() != 150 {
			t.Errorf("rate %.2f/s, want 150", r.Rate())
		}
		if began != 2*time.Second || ended != 6*time.Second || watched < 5*time.Second {
			t.Errorf("the window was %v to %v, watched until %v", began, ended, watched)
		}
	})
}

func TestErrorsAreCountedApart(t *testing.T) {
	fault := errors.New("fault")
	synctest.Test(t, func(t *testing.T) {
		i := 0
		r := mustRun(t, Plan{Duration: time.Second}, Timed(func(context.Context) error {
			time.Sleep(10 * time.Millisecond)
			switch i++; i % 3 {
			case 0:
				return fault
			case 1:
				return ErrNotCounted
			}
			return nil
		}))
		// Three operations and the pause after the failed one take 40 ms.
		if r.Errors != 24 && r.Errors != 25 || !errors.Is(r.FirstError, fault) {
			t.Errorf("%d errors, the first %v; want 24 or 25", r.Errors, r.FirstError)
		}
		if n := r.Latency.TotalCount(); n != 25 || r.Uncounted != 25 {
			t.Errorf("%d measured, %d not counted, want 25 and 25", n, r.Uncounted)
		}
	})
}

// TestErrorsOfTheWarmup: failures in the warm-up are reported, and do not
// change the count of missed operations in the window.
func TestErrorsOfTheWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, rate := range []float64{0, 100} {
			start := time.Now()
			r := mustRun(t, Plan{Warmup: time.Second, Duration: time.Second, Rate: rate}, Timed(func(context.Context) error {
				time.Sleep(5 * time.Millisecond)
				if time.Since(start) < 100*time.Millisecond {
					return errors.New("not yet")
				}
				return nil
			}))
			if r.Errors == 0 || r.Missed != 0 || r.Latency.TotalCount() < 99 {
				t.Errorf("rate %v: %d errors, %d missed, %d measured", rate, r.Errors, r.Missed, r.Latency.TotalCount())
			}
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		hang := Timed(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if _, err := (Plan{Duration: time.Hour}).Run(ctx, []Step{hang}, Hooks{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want the context's", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		hang := Timed(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		mustRun(t, Plan{Duration: time.Second, Drain: 3 * time.Second}, hang)
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("a run whose operation hangs took %v, want window and drain: 4s", took)
		}
	})
}

func TestSpreadAndPercentile(t *testing.T) {
	for _, test := range []struct {
		values           []float64
		median, p90, p99 float64
	}{
		{nil, 0, 0, 0},
		{[]float64{7}, 7, 7, 7},
		{[]float64{3, 1}, 2, 3, 3},
		{[]float64{5, 1, 3}, 3, 5, 5},
		{[]float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 5.5, 9, 10},
	} {
		if got := Median(test.values); got != test.median {
			t.Errorf("median of %v is %v, want %v", test.values, got, test.median)
		}
		if got := Percentile(test.values, 90); got != test.p90 {
			t.Errorf("p90 of %v is %v, want %v", test.values, got, test.p90)
		}
		if got := Percentile(test.values, 99); got != test.p99 {
			t.Errorf("p99 of %v is %v, want %v", test.values, got, test.p99)
		}
	}
	if got := SpreadOf([]float64{4, 2, 9}); got != (Spread{Median: 4, Min: 2, Max: 9}) {
		t.Errorf("spread is %+v", got)
	}
}
