// Package progress detects steps that do not end: a blocked goroutine, a
// hanging disk, a mutex that is not released. Each step records when it began.
// Checking reads that without a lock, so it never hangs with the step.
package progress

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Watch tracks the steps of a process that must not hang. Its methods are safe
// for concurrent use. A nil Watch tracks none.
type Watch struct {
	clock func() time.Duration
	mu    sync.Mutex // of changes to steps
	steps atomic.Pointer[[]*Step]
}

// New returns a Watch without steps.
func New(clock func() time.Duration) *Watch {
	w := &Watch{clock: clock}
	w.steps.Store(new([]*Step))
	return w
}

// Step is a repeated step of one goroutine. A nil Step records nothing.
type Step struct {
	name    string
	clock   func() time.Duration
	elapsed func() time.Duration // replaces began, if not nil
	allowed time.Duration        // not counted
	began   atomic.Int64         // by the clock, plus one; 0 between two steps
}

// Step returns a new step, tracked until Remove.
func (w *Watch) Step(name string) *Step {
	if w == nil {
		return nil
	}
	s := &Step{name: name, clock: w.clock}
	w.change(func(all []*Step) []*Step { return append(slices.Clone(all), s) })
	return s
}

// Allow excludes the first d of the step's time from the count.
func (s *Step) Allow(d time.Duration) *Step {
	s.allowed = d
	return s
}

// Add tracks a step with a function that returns how long it has taken, 0
// between two steps.
func (w *Watch) Add(name string, elapsed func() time.Duration) {
	w.change(func(all []*Step) []*Step { return append(slices.Clone(all), &Step{name: name, elapsed: elapsed}) })
}

// Remove stops tracking a step.
func (w *Watch) Remove(s *Step) {
	if w != nil {
		w.change(func(all []*Step) []*Step {
			return slices.DeleteFunc(slices.Clone(all), func(one *Step) bool { return one == s })
		})
	}
}

func (w *Watch) change(to func([]*Step) []*Step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := to(*w.steps.Load())
	w.steps.Store(&next)
}

// Begin records that the step has begun.
func (s *Step) Begin() {
	if s != nil {
		s.began.Store(int64(s.clock()) + 1)
	}
}

// Continue records that the step has begun, unless it is in progress.
func (s *Step) Continue() {
	if s != nil {
		s.began.CompareAndSwap(0, int64(s.clock())+1)
	}
}

// End records that the step has ended.
func (s *Step) End() {
	if s != nil {
		s.began.Store(0)
	}
}

// has returns how long the step has taken at now, which it reads if no other step
// in progress has.
func (s *Step) has(now *time.Duration) time.Duration {
	if s.elapsed != nil {
		return s.elapsed()
	}
	began := s.began.Load()
	if began == 0 {
		return 0
	}
	if *now == 0 {
		*now = s.clock()
	}
	return *now - time.Duration(began-1) - s.allowed
}

// Hang is a step that has not ended for too long.
type Hang struct {
	Step string
	For  time.Duration
}

func (h *Hang) Error() string {
	return fmt.Sprintf("this replica hangs: its step %q has not ended for %v", h.Step, h.For.Round(time.Millisecond))
}

// Hangs returns the step in progress that has taken longest, if that exceeds
// bound; otherwise nil. Every reply and message asks, so it reads the clock at
// most once.
func (w *Watch) Hangs(bound time.Duration) *Hang {
	if w == nil {
		return nil
	}
	var worst *Hang
	var now time.Duration
	for _, s := range *w.steps.Load() {
		if has := s.has(&now); has > bound {
			worst, bound = &Hang{s.name, has}, has
		}
	}
	return worst
}
