package gate

import (
	"net/netip"
	"sync"
	"time"

	"github.com/stoutlock/stout/internal/audit"
)

// Answers to bad credentials from one address slow down. The first fewAttempts
// are answered at once, later ones at intervals of Attempts.Every, with a delay
// of at most mostPenalty intervals. Good credentials and requests without
// credentials are never delayed.
const (
	fewAttempts   = 10
	mostPenalty   = 20
	mostAddresses = 4096
)

// Attempts counts bad credentials per address, for at most mostAddresses
// addresses. IPv6 addresses are grouped by /64 network.
type Attempts struct {
	Every time.Duration

	mu sync.Mutex
	of map[netip.Prefix]time.Duration // when the network's attempts are worked off
}

// Failed records one more bad credential at now and returns how long to delay
// the answer.
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

// forget deletes the addresses with attempts that are worked off. If there are
// none, it deletes all addresses: then thousands attack at once, each of them
// slowly.
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
