package boottime

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// machine has a clock that continues while the machine sleeps, unlike Go's
// timers, and alarms that ring by that clock while it is awake.
type machine struct {
	start  time.Time
	asleep atomic.Int64
	alarms []*fakeAlarm
}

type fakeAlarm struct {
	m      *machine
	ring   func()
	at     time.Duration
	closed bool
}

func (m *machine) now() time.Duration { return time.Since(m.start) + time.Duration(m.asleep.Load()) }

func (m *machine) queue() *queue {
	return &queue{now: m.now, newAlarm: func(ring func()) alarm {
		a := &fakeAlarm{m: m, ring: ring}
		m.alarms = append(m.alarms, a)
		return a
	}}
}

func (a *fakeAlarm) set(at time.Duration) { a.at = at }
func (a *fakeAlarm) close()               { a.closed = true }

// advance lets the clock run to an instant; alarms ring when they are due.
func (m *machine) advance(to time.Duration) {
	for {
		var next *fakeAlarm
		for _, a := range m.alarms {
			if !a.closed && a.at <= to && (next == nil || a.at < next.at) {
				next = a
			}
		}
		if next == nil {
			break
		}
		time.Sleep(next.at - m.now())
		next.ring()
		synctest.Wait()
	}
	time.Sleep(to - m.now())
}

// all returns the values in a channel, in order.
func all(in chan time.Duration) []time.Duration {
	close(in)
	var out []time.Duration
	for d := range in {
		out = append(out, d)
	}
	slices.Sort(out)
	return out
}

// Every timer calls at its instant, independently of other timers. A timer that
// was stopped or reset does not call at the old instant.
func TestTimersCallAtTheirInstants(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{start: time.Now()}
			q := m.queue()
			r := rand.New(rand.NewPCG(seed, 1))
			var want []time.Duration
			called := make(chan time.Duration, 50)
			at := func() time.Duration { return time.Duration(1+r.IntN(1000)) * time.Millisecond }
			for range 50 {
				d, again := at(), at()
				timer := q.afterFunc(d, func() { called <- m.now() })
				switch r.IntN(3) {
				case 0:
					if !timer.Stop() || timer.Stop() {
						t.Error("a timer that ran was not stopped, or stopped twice")
					}
					if r.IntN(2) == 0 {
						continue
					}
					if timer.Reset(again) {
						t.Error("a stopped timer was reported as run")
					}
					d = again
				case 1:
					if !timer.Reset(again) {
						t.Error("a timer that ran was reported as stopped")
					}
					d = again
				}
				want = append(want, d)
			}
			m.advance(2 * time.Second)
			slices.Sort(want)
			if got := all(called); !slices.Equal(got, want) {
				t.Errorf("called at %v\nwant       %v", got, want)
			}
			for _, a := range m.alarms {
				if !a.closed {
					t.Error("an alarm remains although no timer runs")
				}
			}
		})
	}
}

// Timers that became due while the machine slept call when it wakes up.
func TestTimersAfterASleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{start: time.Now()}
		q := m.queue()
		called := make(chan time.Duration, 3)
		for _, d := range []time.Duration{time.Second, time.Minute, 2 * time.Hour} {
			q.afterFunc(d, func() { called <- d })
		}
		m.asleep.Store(int64(time.Hour))
		m.alarms[0].ring()
		synctest.Wait()
		if got := all(called); !slices.Equal(got, []time.Duration{time.Second, time.Minute}) {
			t.Errorf("called: %v", got)
		}
		if got := m.alarms[0].at; got != 2*time.Hour {
			t.Errorf("the next alarm is at %s", got)
		}
	})
}

// The poller notices a sleep within pollEvery, and is on time without one.
func TestPoller(t *testing.T) {
	for _, slept := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{start: time.Now()}
			q := &queue{now: m.now, newAlarm: func(ring func()) alarm { return newPoller(m.now, ring) }}
			rang := make(chan time.Duration, 1)
			q.afterFunc(10*time.Second, func() { rang <- time.Since(m.start) })
			time.Sleep(3500 * time.Millisecond)
			m.asleep.Store(int64(slept))
			got, least, most := <-rang, 10*time.Second, 10*time.Second
			if slept > 0 {
				least, most = 3500*time.Millisecond, 3500*time.Millisecond+pollEvery
			}
			if got < least || got > most {
				t.Errorf("with a sleep of %s it rang at %s, want %s to %s", slept, got, least, most)
			}
		})
	}
}

// The system's alarm rings.
func TestAfterFunc(t *testing.T) {
	rang := make(chan time.Duration)
	began := Now()
	never := AfterFunc(time.Hour, func() { t.Error("the hour is over") })
	AfterFunc(20*time.Millisecond, func() { rang <- Now() - began })
	if got := <-rang; got < 20*time.Millisecond {
		t.Errorf("rang after %s, before its time", got)
	}
	if !never.Stop() {
		t.Error("the other timer had run out")
	}
}

// In a bubble a timer does not keep the bubble's time from advancing. A wait for
// the operating system would.
func TestAfterFuncInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := AfterFunc(time.Hour, func() {})
		time.Sleep(time.Minute)
		if !timer.Stop() {
			t.Error("the timer ran out")
		}
	})
}
