package lease

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// otherClock is the clock of another process, and the network to it.
type otherClock struct {
	rate      float64
	at        time.Duration // its reading when this clock reads 0
	there     time.Duration // how long a question travels
	back      time.Duration // and an answer
	paused    time.Duration // when it stops for pausedFor
	pausedFor time.Duration
}

func (c otherClock) look(sent time.Duration) Sight {
	read := sent + c.there
	ran := read - min(c.pausedFor, max(0, read-c.paused))
	return Sight{Sent: sent, Came: read + c.back, Other: c.at + time.Duration(float64(ran)*c.rate)}
}

func TestRates(t *testing.T) {
	const s = time.Second
	good := otherClock{rate: 1, at: time.Hour, there: ms, back: ms}
	for name, c := range map[string]struct {
		clock   func(c *otherClock)
		looks   int
		known   bool
		certain float64 // at least, and within error
		exceeds bool    // the drift of 0.01 of both
		err     float64 // at most
	}{
		"one look":                      {func(*otherClock) {}, 1, false, 0, false, 0},
		"looks within three seconds":    {func(*otherClock) {}, 4, false, 0, false, 0},
		"the same rate":                 {func(*otherClock) {}, 120, true, 0, false, 2e-5},
		"as far as drift allows, fast":  {func(c *otherClock) { c.rate = 1.01 / 0.9901 }, 120, true, 0.02, false, 1e-3},
		"faster than drift allows":      {func(c *otherClock) { c.rate = 1.022 }, 120, true, 0.0219, true, 1e-4},
		"slower than drift allows":      {func(c *otherClock) { c.rate = 0.975 }, 120, true, 0.0249, true, 1e-4},
		"1.02 is within drift of both":  {func(c *otherClock) { c.rate = 1.02 }, 120, true, 0.0199, false, 1e-4},
		"stood still for a second":      {func(c *otherClock) { c.paused, c.pausedFor = 60*s, s }, 120, true, 0.1, true, 1e-2},
		"stood still long ago":          {func(c *otherClock) { c.paused, c.pausedFor = 20*s, s }, 400, true, 0, false, 2e-5},
		"questions take long":           {func(c *otherClock) { c.there = 300 * ms }, 120, true, 0, false, 4e-3},
		"answers take long":             {func(c *otherClock) { c.back = 300 * ms }, 120, true, 0, false, 4e-3},
		"faster, and answers take long": {func(c *otherClock) { c.rate, c.back = 1.05, 300*ms }, 120, true, 0.04, true, 4e-3},
	} {
		t.Run(name, func(t *testing.T) {
			clock := good
			c.clock(&clock)
			var r Rates
			for i := range c.looks {
				r.Saw("boot", clock.look(time.Duration(i)*s))
			}
			got, known := r.Worst(time.Duration(c.looks) * s)
			if known != c.known {
				t.Fatalf("known: %v, %+v", known, got)
			}
			if !known {
				return
			}
			difference, err := got.Difference()
			if sure := math.Abs(difference) - err; sure < c.certain-1e-9 && c.certain > 0 || err > c.err || (sure > Drift(0.01).Between()) != c.exceeds {
				t.Errorf("%+v: a difference of %v within %v, certainly %v", got, difference, err, sure)
			}
		})
	}
}

// After a restart, the other clock may count from any instant.
func TestRatesAfterARestart(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		origin string
		at     time.Duration
	}{"of the process": {"2", time.Hour}, "of the machine, with the same origin": {"1", 0}} {
		t.Run(name, func(t *testing.T) {
			var r Rates
			before, after := otherClock{rate: 1, at: time.Hour}, otherClock{rate: 1, at: c.at}
			for i := range 10 {
				r.Saw("1", before.look(time.Duration(i)*s))
			}
			if _, ok := r.Worst(10 * s); !ok {
				t.Fatal("the rate is unknown: the test shows nothing")
			}
			r.Saw(c.origin, after.look(10*s))
			if got, ok := r.Worst(11 * s); ok {
				t.Errorf("clocks of two starts are compared: %+v", got)
			}
			for i := range 10 {
				r.Saw(c.origin, after.look(time.Duration(11+i)*s))
			}
			if got, ok := r.Worst(21 * s); !ok || got.certain() > 0 {
				t.Errorf("%+v, %v", got, ok)
			}
		})
	}
}

// Sights may come at any rate and out of order.
func TestRatesKeepOneLookASecond(t *testing.T) {
	var r Rates
	c := otherClock{rate: 1, there: ms, back: ms}
	for i := range 10_000 {
		r.Saw("1", c.look(time.Duration(i)*10*ms))
		r.Saw("1", c.look(time.Duration(i)*10*ms-5*ms))
	}
	if n := len(r.sights); n != mostSights || cap(r.sights) > 2*mostSights {
		t.Errorf("%d looks are kept, with room for %d", n, cap(r.sights))
	}
	if got, ok := r.Worst(100 * time.Second); !ok || got.certain() > 0 {
		t.Errorf("%+v, %v", got, ok)
	}
}

// Worst returns false two minutes after the last sight of a clock, even if no
// other clock replaced it.
func TestRatesAreForgotten(t *testing.T) {
	var r Rates
	c := otherClock{rate: 1.05, there: ms, back: ms}
	for i := range 10 {
		r.Saw("1", c.look(time.Duration(i)*time.Second))
	}
	last := 9*time.Second + 2*ms
	for now, want := range map[time.Duration]bool{last: true, last + 2*time.Minute: true, last + 2*time.Minute + 1: false} {
		if got, ok := r.Worst(now); ok != want {
			t.Errorf("%v after the last sight: %+v, %v", now-last, got, ok)
		}
	}
}

// TestRatesAreCertain: however long messages travel, the true rate is within
// the bounds.
func TestRatesAreCertain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.5, 2).Draw(t, "rate")
		var r Rates
		now := time.Duration(0)
		for range rapid.IntRange(2, 20).Draw(t, "looks") {
			c := otherClock{rate: rate, at: time.Hour,
				there: time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "there")),
				back:  time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "back"))}
			s := c.look(now)
			r.Saw("1", s)
			now = s.Came + time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "pause"))
		}
		if got, ok := r.Worst(now); ok && (got.Low > rate+1e-9 || got.High < rate-1e-9) {
			t.Fatalf("%+v does not hold %v", got, rate)
		}
	})
}
