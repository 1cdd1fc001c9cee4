package cli

import (
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// The sequel of a running lock-delay is in the future tense, and the sequel of
// a possible death in the conditional.
func TestWhatIf(t *testing.T) {
	next := lockapi.Waiter{SessionName: "next", Mode: lockapi.Exclusive}
	for want, l := range map[string]lockapi.Lock{
		"After the lock-delay, the lock will be free.": {DelayRemainingMS: 1},
		"After the lock-delay, next will get it.":      {DelayRemainingMS: 1, Waiters: 1, Queue: []lockapi.Waiter{next}},
		"If the holder died now, its session would expire after its ttl, and then next would get it.": {
			Holders: []lockapi.Holder{{}}, Waiters: 1, Queue: []lockapi.Waiter{next},
		},
	} {
		if got := whatIf(&explained{Lock: l}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
