package server

import (
	"net"
	"net/http"
	"net/netip"
	"time"
)

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
	pause := x.attempts.Failed(from, time.Since(x.started))
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
