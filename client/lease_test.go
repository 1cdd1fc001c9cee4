package client

import (
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/boottime"
	"github.com/stoutlock/stout/lockapi"
)

// The lease never becomes shorter, and an answer cannot credit more held time
// than the call took.
func TestExtendNeverShortens(t *testing.T) {
	now := time.Hour
	c, err := Config{URLs: []string{"http://r1"}, Clock: func() time.Duration { return now }}.New()
	if err != nil {
		t.Fatal(err)
	}
	s := c.newSession(lockapi.Session{ID: "s", TTLMS: 12_000, Epoch: 1})
	s.lease.start(now + 12*time.Second)
	before := s.Remaining()
	s.keeper.renewed(now, &lockapi.Keepalive{TTLMS: 1000, Epoch: 1})
	if got := s.Remaining(); got != before {
		t.Errorf("remaining is %s after a shorter answer, was %s", got, before)
	}
	s.keeper.renewed(now, &lockapi.Keepalive{TTLMS: 12_000, HeldMS: 60_000, Epoch: 1})
	if got := s.Remaining(); got > 12*time.Second {
		t.Errorf("remaining is %s: it accepts a hold time longer than the call", got)
	}
}

// By default timers use the clock of the leases. They fire at the relevant
// instants, not periodically.
func TestTimersOfTheDefaultClock(t *testing.T) {
	c, err := New("http://r1")
	if err != nil {
		t.Fatal(err)
	}
	timer := c.clock.afterFunc(time.Hour, func() {})
	defer timer.Stop()
	if _, ok := timer.(*boottime.Timer); !ok {
		t.Errorf("a timer of the default clock is a %T", timer)
	}
	s := benchSession(c)
	if got := s.lease.wakeIn(c.clock.now()); got < 59*time.Minute {
		t.Errorf("wakes in %s for a lease of an hour", got)
	}
}

// setTimer records how it was set last.
type setTimer struct{ last time.Duration }

func (s *setTimer) Reset(d time.Duration) bool { s.last = d; return true }
func (s *setTimer) Stop() bool                 { return true }

// TestJeopardyThatEndsSetsTheTimer: in a jeopardy the timer is set for the end
// of the grace, and by an answer for the end of the lease again.
func TestJeopardyThatEndsSetsTheTimer(t *testing.T) {
	c, err := New("http://r1")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Hour
	c.clock = clock{now: func() time.Duration { return now }, own: true}
	l := &c.newSession(lockapi.Session{ID: "s", TTLMS: 12_000}).lease
	l.start(now + 12*time.Second)
	l.timer.Stop()
	timer := &setTimer{}
	l.timer = timer
	now += 13 * time.Second
	l.wake()
	if state, _, _ := l.now(); state != Jeopardy || timer.last != l.grace-time.Second {
		t.Fatalf("the timer of a session in %s is set to %s", state, timer.last)
	}
	l.extend(now + 12*time.Second)
	if state, _, _ := l.now(); state != Safe || timer.last != 12*time.Second {
		t.Errorf("the timer of a session in %s is set to %s", state, timer.last)
	}
}
