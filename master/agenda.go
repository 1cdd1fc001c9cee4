package master

import (
	"container/heap"
	"time"

	"github.com/stoutlock/stout/replica/state"
)

// A matter is something that becomes due: a session's end, a lock-delay's, or
// that of a wait which nobody has asked about since the office opened. Whether
// it really is due is looked up when its time has come: a keepalive only moves
// the session's deadline and leaves the agenda alone.
type matter struct {
	at      time.Duration
	place   int // in the heap, kept by Swap, Push and Pop
	session *session
	path    string   // of a lock-delay
	delayID uint64   // of a lock-delay
	pair    *pairKey // of an orphaned wait
}

// agenda is a heap of matters, earliest first.
type agenda []*matter

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at < a[j].at }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = i, j
}

// Push is for container/heap.
func (a *agenda) Push(x any) {
	m := x.(*matter)
	m.place = len(*a)
	*a = append(*a, m)
}

// Pop is for container/heap.
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	last.place = -1
	return last
}

// schedule puts a matter on the agenda. o.mu is held.
func (o *office) schedule(m *matter) {
	heap.Push(&o.due, m)
	if m.place == 0 {
		select {
		case o.wake <- struct{}{}:
		default:
		}
	}
}

// strike takes a matter off the agenda, if it still is on it. o.mu is held.
func (o *office) strike(m *matter) {
	if m.place >= 0 {
		heap.Remove(&o.due, m.place)
	}
}

// lapseRecheck is how soon the agenda is looked at again while the lease is
// out: nothing ends in that time.
const lapseRecheck = 20 * time.Millisecond

// keepAgenda does what is due. Timers only wake it; what is due is decided by
// the clock.
func (o *office) keepAgenda() {
	t := stoppedTimer()
	defer t.Stop()
	for {
		t.Reset(o.work())
		select {
		case <-o.done:
			return
		case <-o.wake:
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

// work handles every matter that is due and returns how long it is to the next.
func (o *office) work() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.due) > 0 {
		now := o.opts.Clock()
		if wait := o.due[0].at - now; wait > 0 {
			return wait
		}
		if !o.lease.Valid(o.opts.Clock()) {
			return lapseRecheck
		}
		m := heap.Pop(&o.due).(*matter)
		switch {
		case m.session != nil:
			o.sessionDue(m.session, now)
		case m.pair != nil:
			o.orphanDue(*m.pair)
		default:
			o.delayDue(m, now)
		}
	}
	return time.Hour
}

// delay is a lock-delay in force.
type delay struct {
	id    uint64
	until time.Duration
}

// startDelay notes a lock-delay. Where one is in force already, the later end
// counts. o.mu is held, or the office is not in use yet.
func (o *office) startDelay(path string, id uint64, ms int64, now time.Duration) {
	until := now + o.opts.Drift.Long(time.Duration(ms)*time.Millisecond)
	before, there := o.delays[path]
	if !there {
		o.use.add(delayAmount(path), 1)
	}
	d := delay{id: id, until: max(until, before.until)}
	o.delays[path] = d
	o.schedule(&matter{at: d.until, path: path, delayID: id})
}

// delayDue proposes the end of a lock-delay, unless another has followed it.
// o.mu is held.
func (o *office) delayDue(m *matter, now time.Duration) {
	if d := o.delays[m.path]; d.id == m.delayID && d.until <= now {
		go o.propose(&state.EndDelay{Path: m.path, ID: m.delayID})
	}
}

// delayRemaining is what is left of the lock-delay at path, 0 for none.
func (o *office) delayRemaining(path string) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	d, ok := o.delays[path]
	if !ok {
		return 0
	}
	return max(0, d.until-o.opts.Clock())
}
