package boottime

import "time"

// pollEvery bounds how late an instant is noticed on systems without a timer
// that continues while the machine sleeps. Go's timers stop during sleep.
const pollEvery = time.Second

// poller is an alarm on a Go timer, which rings at least every pollEvery.
type poller struct {
	now  func() time.Duration
	ring *time.Timer
}

func polled() *queue {
	return &queue{now: Now, newAlarm: func(ring func()) alarm { return newPoller(Now, ring) }}
}

func newPoller(now func() time.Duration, ring func()) *poller {
	t := time.AfterFunc(pollEvery, ring)
	return &poller{now: now, ring: t}
}

func (p *poller) set(at time.Duration) { p.ring.Reset(min(max(at-p.now(), 0), pollEvery)) }

func (p *poller) close() { p.ring.Stop() }
