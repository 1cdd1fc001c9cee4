package server

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/stoutlock/stout/internal/audit"
)

// Bad credentials from one address are answered more slowly the more of them there
// have been: fewAttempts at once, then one each Options.AttemptEvery, and none later
// than twenty times that. A good credential is never slowed down, nor is one who brings none.
const (
	fewAttempts   = 10
	mostPenalty   = 20
	mostAddresses = 4096
)

// attempts remembers from where bad credentials came, of so many addresses at most. An
// address is a network of 64 bits where it is one of IPv6.
type attempts struct {
	every time.Duration

	mu sync.Mutex
	of map[netip.Prefix]time.Duration // the instant at which what came from there is worked off
}

// failed notes one more, at an instant, and says for how long to hold the answer back.
func (a *attempts) failed(from netip.Addr, now time.Duration) time.Duration {
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
	until = min(max(until, now)+a.every, now+(fewAttempts+mostPenalty)*a.every)
	a.of[key] = until
	return max(0, until-now-fewAttempts*a.every)
}

// forget makes room: whatever is worked off goes, and where that is nothing, all: then
// thousands of addresses attack at once, and each of them is slow by itself.
func (a *attempts) forget(now time.Duration) {
	for key, until := range a.of {
		if until <= now {
			delete(a.of, key)
		}
	}
	if len(a.of) >= mostAddresses {
		clear(a.of)
	}
}

// penalize holds the answer to a bad credential back, as a peer's is not: the replica
// that it comes through does it. One on a spare connection is counted and not held
// back: there are few of those, and keepalives need them.
func (x *exchange) penalize() {
	if x.peer || !x.brought {
		return
	}
	x.metrics.badCredentials.Inc()
	x.holdBack()
}

// holdBack waits for as long as the wrong guesses from the caller's address call for.
func (x *exchange) holdBack() {
	host, _, err := net.SplitHostPort(x.c.Request.RemoteAddr)
	if err != nil {
		return
	}
	from, err := netip.ParseAddr(host)
	if err != nil {
		return
	}
	pause := x.attempts.failed(from, time.Since(x.started))
	if pause == 0 || x.spared {
		return
	}
	x.body = nil // it would be kept for as long as the answer is held back
	x.c.Request.Body = http.NoBody
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-x.ctx().Done():
	case <-x.stopping:
	}
}

// passLate is pass for another replica's 401, which is held back like one's own. The
// call has returned: nothing keeps its body meanwhile.
func (x *exchange) passLate() {
	if got := x.late; got != nil {
		x.penalize()
		x.pass(*got)
	}
}
