package world

import (
	"errors"
	"time"
)

// network says what becomes of messages between machines and users.
type network struct {
	w     *world
	cut   map[[2]string]bool          // from, to
	lag   map[[2]string]time.Duration // and what a message takes besides
	calm  time.Duration               // a message takes so long at least
	worst time.Duration               // and so long at most
	lose  int                         // one message in this many is lost; 0 = none
	twice int                         // one in this many arrives twice
	stuck int                         // one in this many takes seconds
}

func newNetwork(w *world) *network {
	n := &network{w: w, cut: map[[2]string]bool{}, lag: map[[2]string]time.Duration{}}
	n.fair()
	return n
}

// fair makes it a good network again. Cuts stay.
func (n *network) fair() {
	n.calm, n.worst, n.lose, n.twice, n.stuck = 100*time.Microsecond, n.w.profile.near, 0, 0, 0
}

// delay is how long one message takes. Messages overtake each other.
func (n *network) delay() time.Duration {
	if n.stuck != 0 && n.w.chance(n.stuck) {
		return between(n.w.rng, n.worst, n.worst+5*time.Second)
	}
	return between(n.w.rng, n.calm, n.worst)
}

func (n *network) isCut(from, to string) bool { return n.cut[[2]string{from, to}] }

func (n *network) setCut(from, to string, cut bool) {
	if cut {
		n.cut[[2]string{from, to}] = true
	} else {
		delete(n.cut, [2]string{from, to})
	}
}

// arrives takes a message on its way, and reports whether it gets there.
func (n *network) arrives(from, to string) bool { return n.arrivesOf(from, to, n.w.now()) }

// arrivesOf is arrives for a message that was sent at an earlier time.
func (n *network) arrivesOf(from, to string, sent time.Duration) bool {
	if n.isCut(from, to) {
		return false
	}
	time.Sleep(sent + n.delay() + n.lag[[2]string{from, to}] - n.w.now())
	return !n.isCut(from, to) && (n.lose == 0 || !n.w.chance(n.lose))
}

// Bounds of the pause before what a connection has lost is sent again. Each is
// twice as long as the one before (RFC 6298).
const (
	firstRepeat = 200 * time.Millisecond
	lastRepeat  = 3200 * time.Millisecond
)

// Bounds of how late the second copy of a message may come.
const (
	leastLate = time.Millisecond
	mostLate  = 4 * time.Second
)

// copies says how late each copy of a message leaves. A sender that gives a connection
// up sends the message again over another one, and both may arrive. A snapshot takes
// long, and is sent twice also where the network is fair.
func (n *network) copies(snapshot bool) []time.Duration {
	often := n.twice
	if snapshot {
		often = 3
	}
	if often == 0 || !n.w.chance(often) {
		return []time.Duration{0}
	}
	late := between(n.w.rng, leastLate, mostLate)
	if !snapshot && n.w.chance(2) {
		late = 0
	}
	return []time.Duration{0, late}
}

// conveys takes part of a stream on its way: what is lost is sent again. It
// reports false where the connection is given up.
func (n *network) conveys(from, to string, sent time.Duration) bool {
	for pause := firstRepeat; ; pause *= 2 {
		if n.arrivesOf(from, to, sent) {
			return true
		}
		if pause > lastRepeat {
			return false
		}
		time.Sleep(pause)
		sent = n.w.now()
	}
}

var (
	errRefused = errors.New("connection refused")
	errReset   = errors.New("connection reset by peer")
	errTimeout = errors.New("i/o timeout")
)
