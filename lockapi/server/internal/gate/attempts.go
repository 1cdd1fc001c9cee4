package gate

import (
	"net/netip"
	"sync"
	"time"

	"github.com/stoutlock/stout/internal/audit"
)

// Bad credentials from one address are answered more slowly the more of them there
// have been: fewAttempts at once, then one each Attempts.Every, and none later
// than twenty times that. A good credential is never slowed down, nor is one who brings none.
const (
	fewAttempts   = 10
	mostPenalty   = 20
	mostAddresses = 4096
)

// Attempts remembers from where bad credentials came, of so many addresses at most. An
// address is a network of 64 bits where it is one of IPv6.
type Attempts struct {
	Every time.Duration

	mu sync.Mutex
	of map[netip.Prefix]time.Duration // the instant at which what came from there is worked off
}

// Failed notes one more, at an instant, and says for how long to hold the answer back.
func (a *Attempts) Failed(from netip.Addr, now time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := audit.NetworkOf(from)
	until, known := a.of[key]
	if !known && len(a.of) >= mostAddresses {
		a.forget(now)
	}
	if a.of == nil {
		a.of = map[netip.Prefix]time.Duration{}
	}
	until = min(max(until, now)+a.Every, now+(fewAttempts+mostPenalty)*a.Every)
	a.of[key] = until
	return max(0, until-now-fewAttempts*a.Every)
}

// forget makes room: whatever is worked off goes, and where that is nothing, all: then
// thousands of addresses attack at once, and each of them is slow by itself.
func (a *Attempts) forget(now time.Duration) {
	for key, until := range a.of {
		if until <= now {
			delete(a.of, key)
		}
	}
	if len(a.of) >= mostAddresses {
		clear(a.of)
	}
}
