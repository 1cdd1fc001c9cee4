package server

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/gate"
	"github.com/stoutlock/stout/master"
)

// headerBackoff is how another replica is to answer a call that this one refused,
// see master.Backoff: the milliseconds to wait, and "close" to close the caller's
// connection. That replica has the connection.
const headerBackoff = "Stout-Hold"

// pace counts a call once against its caller's calls per second. frees means
// that it keeps or frees what the caller has.
func (x *exchange) pace(frees bool) (err error) {
	if x.paced || x.master == nil || x.route.asks == master.Nothing || !x.master.BoundsCalls() {
		return nil
	}
	x.paced = true
	x.backoff, err = x.master.AdmitCall(x.caller(), frees)
	return err
}

// paceRefused counts a call that this replica has refused by itself, such as a
// malformed one. It returns the refusal for the calls per second, or nil.
func (x *exchange) paceRefused(err error) error {
	refused, ok := errors.AsType[*lockapi.Error](err)
	if !ok || refused.Code.Status() >= http.StatusInternalServerError || refused.Code == lockapi.CodeUnauthenticated {
		return nil
	}
	return x.pace(false)
}

// holdAnswer delays the answer to a call beyond its caller's calls per second.
func (x *exchange) holdAnswer() {
	backoff := x.backoff
	if backoff == (master.Backoff{}) {
		return
	}
	h := x.c.Writer.Header()
	if x.peer {
		text := strconv.FormatInt(backoff.For.Milliseconds(), 10)
		if backoff.Close {
			text += " close"
		}
		h.Set(headerBackoff, text)
		return
	}
	x.metrics.held.Inc()
	if backoff.Close || x.route.guest {
		h.Set("Connection", "close")
		return
	}
	x.delay(backoff.For)
}

// detachBackoff removes the header of another replica's answer, and reports whether
// it had one.
func (x *exchange) detachBackoff(from http.Header) bool {
	text := from.Get(headerBackoff)
	if text == "" {
		return false
	}
	from.Del(headerBackoff)
	ms, rest, _ := strings.Cut(text, " ")
	n, _ := strconv.ParseUint(ms, 10, 16)
	x.backoff = master.Backoff{For: time.Duration(n) * time.Millisecond, Close: rest == "close"}
	return true
}

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
	if pause > 0 && !x.route.guest {
		x.delay(pause)
	}
}

// delay delays the answer. It drops the call's body and long headers first. Others
// may displace the connection then. The call gives up its other places before.
func (x *exchange) delay(d time.Duration) {
	waits := gate.Call{Of: x.call.Of, Keeps: x.call.Keeps, Refused: true} // choose may still read x.call
	waits.Park(x.ctx())
	defer waits.Unpark()
	x.trimHeaders()
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
		if got.Status == http.StatusUnauthorized {
			x.penalize()
		}
		x.holdAnswer()
		x.pass(*got)
	}
}
