package server

import (
	"net"
	"net/http"
	"net/netip"
	"time"
)

// penalize delays the answer to a bad credential. It does not delay calls
// forwarded by a peer, since that replica does. On a spare connection the
// attempt is counted but not delayed: those are few, and keepalives need them.
func (x *exchange) penalize() {
	if x.peer || !x.brought {
		return
	}
	x.metrics.badCredentials.Inc()
	x.holdBack()
}

// holdBack waits as long as the number of bad attempts from the caller's
// address requires.
func (x *exchange) holdBack() {
	host, _, err := net.SplitHostPort(x.c.Request.RemoteAddr)
	if err != nil {
		return
	}
	from, err := netip.ParseAddr(host)
	if err != nil {
		return
	}
	pause := x.attempts.Failed(from, time.Since(x.started))
	if pause > 0 && !x.spared {
		x.delay(pause)
	}
}

// delay delays the answer. The call keeps no body meanwhile.
func (x *exchange) delay(d time.Duration) {
	x.body = nil
	x.c.Request.Body = http.NoBody
	select {
	case <-time.After(d):
	case <-x.ctx().Done():
	case <-x.stopping:
	}
}

// passLate passes on another replica's refusal that is delayed: a 401, or a 429
// because of the caller's calls per second. The call has returned, so nothing
// keeps its body during the delay.
func (x *exchange) passLate() {
	if got := x.late; got != nil {
		if got.status == http.StatusUnauthorized {
			x.penalize()
		}
		x.holdAnswer()
		x.pass(*got)
	}
}
