package master

import (
	"container/heap"
	"time"

	"github.com/stoutlock/stout/internal/wait"
)

// deadline is an instant at which something may be due: a session's end, a
// lock-delay's, or that of a wait which nobody has asked about since the office
// opened. Whether it really is due is looked up when its time has come: a
// keepalive only moves what the session counts from, and leaves the deadlines
// alone.
type deadline struct {
	at    time.Duration
	index int // in the heap, kept by Swap, Push and Pop; -1 outside
	of    interface {
		// due does what is due at now. The master lease has run since. o.mu is
		// held.
		due(o *office, now time.Duration)
	}
}

// deadlines are those of one office, to be kept by keepDeadlines. They are
// guarded by the office's mutex.
type deadlines struct {
	heap   deadlineHeap
	wakeup wait.Wakeup // the first may have changed
}

// add puts in a deadline, which is not there.
func (d *deadlines) add(x *deadline) {
	heap.Push(&d.heap, x)
	if x.index == 0 {
		d.wakeup.Wake()
	}
}

// remove takes out a deadline, if it still is there.
func (d *deadlines) remove(x *deadline) {
	if x.index >= 0 {
		heap.Remove(&d.heap, x.index)
	}
}

// deadlineHeap has the earliest first.
type deadlineHeap []*deadline

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for container/heap.
func (h *deadlineHeap) Push(x any) {
	d := x.(*deadline)
	d.index = len(*h)
	*h = append(*h, d)
}

// Pop is for container/heap.
func (h *deadlineHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	last.index = -1
	return last
}

// lapseRecheck is how soon one looks again while the lease is out: nothing ends
// in that time, and nothing is answered.
const lapseRecheck = 20 * time.Millisecond

// keepDeadlines does what is due. Timers only wake it; what is due is decided
// by the clock.
func (o *office) keepDeadlines() {
	t := stoppedTimer()
	defer t.Stop()
	for {
		t.Reset(o.meetDeadlines())
		select {
		case <-o.done:
			return
		case <-o.deadlines.wakeup:
		case <-t.C:
		}
	}
}

// stoppedTimer is a timer that is set by its first Reset.
func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// meetDeadlines does all that is due and returns how long it is to the next
// look.
func (o *office) meetDeadlines() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.deadlines.heap) > 0 {
		now := o.now()
		if wait := o.deadlines.heap[0].at - now; wait > 0 {
			return wait
		}
		if !o.leaseValid() {
			return lapseRecheck
		}
		heap.Pop(&o.deadlines.heap).(*deadline).of.due(o, now)
	}
	return time.Hour
}
