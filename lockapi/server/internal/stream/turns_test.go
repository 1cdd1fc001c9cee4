package stream

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnsRest: streams rest after some turns if others change the cell, for as
// long as they worked times restFactor, and not for long.
func TestTurnsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1)
		use := func(work time.Duration, busy bool) time.Duration {
			var ended time.Time
			turns.run(func() bool {
				time.Sleep(work)
				ended = time.Now()
				return busy
			})
			return time.Since(ended)
		}
		for _, c := range []struct {
			work time.Duration
			busy bool
			want time.Duration
		}{
			{20 * time.Microsecond, true, turnsInRow * restFactor * 20 * time.Microsecond},
			{20 * time.Microsecond, false, 0},
			{time.Second, true, mostRest},
		} {
			var all time.Duration
			for range turnsInRow {
				all += use(c.work, c.busy)
				time.Sleep(time.Minute) // between two events there is no work
			}
			if all != c.want {
				t.Errorf("%+v: they rest for %v", c, all)
			}
		}
	})
}
