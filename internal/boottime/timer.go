package boottime

import (
	"container/heap"
	"sync"
	"time"
)

// Timer calls a function once Now has advanced by some duration.
type Timer struct {
	q     *queue
	f     func()
	at    time.Duration
	index int // in the queue's heap, or -1
}

// AfterFunc calls f in its own goroutine once Now has advanced by d, never
// earlier. If that happens while the machine sleeps, f is called as soon as it
// wakes on Linux, and within pollEvery of that elsewhere.
//
// On Linux all timers of a process share one timerfd and one goroutine, which
// last as long as there are timers.
func AfterFunc(d time.Duration, f func()) *Timer { return theQueue().afterFunc(d, f) }

// Stop prevents the call, and reports whether it did. It returns false if the
// timer had expired or was stopped.
func (t *Timer) Stop() bool {
	t.q.mu.Lock()
	defer t.q.mu.Unlock()
	return t.q.remove(t)
}

// Reset makes the timer expire d from now, whether it is running or not. It
// reports whether it was running.
func (t *Timer) Reset(d time.Duration) bool {
	t.q.mu.Lock()
	defer t.q.mu.Unlock()
	ran := t.index >= 0
	if ran {
		heap.Remove(&t.q.waiting, t.index)
	}
	t.q.add(t, d)
	return ran
}

// queue holds the running timers, and an alarm for the first of them.
type queue struct {
	now      func() time.Duration
	newAlarm func(ring func()) alarm

	mu      sync.Mutex
	waiting byInstant
	alarm   alarm // nil while no timer runs
}

// alarm calls the function with which it was made once its clock reaches the
// instant set last, or earlier. Its methods are not called concurrently.
type alarm interface {
	set(at time.Duration)
	close()
}

func (q *queue) afterFunc(d time.Duration, f func()) *Timer {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &Timer{q: q, f: f, index: -1}
	q.add(t, d)
	return t
}

func (q *queue) add(t *Timer, d time.Duration) {
	t.at = q.now() + max(d, 0)
	heap.Push(&q.waiting, t)
	if q.alarm == nil {
		q.alarm = q.newAlarm(q.ring)
	}
	if t.index == 0 {
		q.alarm.set(t.at)
	}
}

func (q *queue) remove(t *Timer) bool {
	if t.index < 0 {
		return false
	}
	heap.Remove(&q.waiting, t.index)
	if len(q.waiting) == 0 && q.alarm != nil {
		q.alarm.close()
		q.alarm = nil
	}
	return true
}

func (q *queue) ring() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 && q.waiting[0].at <= q.now() {
		go heap.Pop(&q.waiting).(*Timer).f()
	}
	switch {
	case q.alarm == nil:
	case len(q.waiting) > 0:
		q.alarm.set(q.waiting[0].at)
	default:
		q.alarm.close()
		q.alarm = nil
	}
}

// byInstant is a heap of timers, the first to expire at its root.
type byInstant []*Timer

func (h byInstant) Len() int           { return len(h) }
func (h byInstant) Less(i, j int) bool { return h[i].at < h[j].at }
func (h byInstant) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *byInstant) Push(t any) {
	t.(*Timer).index = len(*h)
	*h = append(*h, t.(*Timer))
}

func (h *byInstant) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = -1
	return t
}
