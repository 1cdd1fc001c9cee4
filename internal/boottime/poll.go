package boottime

import "time"

// pollEvery bounds how late an instant is noticed where the system has no timer
// that goes on while the machine sleeps: Go's timers stand still meanwhile.
const pollEvery = time.Second

// poller is an alarm by a timer of Go's, which rings every so often.
type poller struct {
	now  func() time.Duration
	ring *time.Timer
}

// polled is a queue of its own, by a timer of Go's.
func polled() *queue {
	return &queue{now: Now, newAlarm: func(ring func()) alarm { return newPoller(Now, ring) }}
}

func newPoller(now func() time.Duration, ring func()) *poller {
	t := time.AfterFunc(pollEvery, ring)
	return &poller{now: now, ring: t}
}

func (p *poller) set(at time.Duration) { p.ring.Reset(min(max(at-p.now(), 0), pollEvery)) }

func (p *poller) close() { p.ring.Stop() }
