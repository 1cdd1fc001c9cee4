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
