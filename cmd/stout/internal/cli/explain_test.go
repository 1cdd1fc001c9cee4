package cli

import (
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// What comes after a lock-delay that runs will be; what comes after a death that
// has not happened would.
func TestWhatIf(t *testing.T) {
	next := lockapi.Waiter{SessionName: "next", Mode: lockapi.Exclusive}
	for want, l := range map[string]lockapi.Lock{
		"When the lock-delay is over, the lock will be free.": {DelayRemainingMS: 1},
		"When the lock-delay is over, next will get it.":      {DelayRemainingMS: 1, Waiters: 1, Queue: []lockapi.Waiter{next}},
		"If the holder died now, its session would expire when its ttl is over, and then next would get it.": {
			Holders: []lockapi.Holder{{}}, Waiters: 1, Queue: []lockapi.Waiter{next},
		},
	} {
		if got := whatIf(&explained{Lock: l}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
