package master

import (
	"container/heap"
	"time"

	"github.com/stoutlock/stout/internal/wait"
)

// deadline is an instant at which something may be due: the end of a session,
// of a lock-delay, or of an orphaned wait since the office opened. When the
// instant has passed, due checks whether it really is due: a keepalive changes
// session.base only, and not the deadline.
type deadline struct {
	at    time.Duration
	index int // in the heap, kept by Swap, Push and Pop; -1 outside
	of    interface {
		// due handles what is due at now. The master lease was checked
		// after now was read. o.mu is held.
		due(o *office, now time.Duration)
	}
}

// deadlines are the deadlines of one office; keepDeadlines handles them. The
// office's mutex guards them.
type deadlines struct {
	heap   deadlineHeap
	wakeup wait.Wakeup // the first may have changed
}

// add adds a deadline, which must not be in the heap.
func (d *deadlines) add(x *deadline) {
	heap.Push(&d.heap, x)
	if x.index == 0 {
		d.wakeup.Wake()
	}
}

// remove removes a deadline, if it is in the heap.
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

// lapseRecheck is the interval between checks while the lease is out. Sessions
// do not expire, and calls are not answered, during that time.
const lapseRecheck = 20 * time.Millisecond

// keepDeadlines handles deadlines as they become due. Timers only wake it; the
// clock decides what is due.
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

// stoppedTimer returns a timer that the first Reset starts.
func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// meetDeadlines handles everything that is due and returns how long to wait
// until the next check.
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
