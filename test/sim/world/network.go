package world

import (
	"errors"
	"time"
)

// network says what becomes of messages between machines and users.
type network struct {
	w     *world
	cut   map[[2]string]bool // from, to
	calm  time.Duration      // a message takes so long at least
	worst time.Duration      // and so long at most
	lose  int                // one message in so many is lost; 0 = none
	twice int                // and so many arrive twice
}

func newNetwork(w *world) *network {
	n := &network{w: w, cut: map[[2]string]bool{}}
	n.fair()
	return n
}

// fair makes it a local network again. Cuts stay.
func (n *network) fair() {
	n.calm, n.worst, n.lose, n.twice = 100*time.Microsecond, 2*time.Millisecond, 0, 0
}

// delay is how long one message takes. Messages overtake each other.
func (n *network) delay() time.Duration { return between(n.w.rng, n.calm, n.worst) }

func (n *network) isCut(from, to string) bool { return n.cut[[2]string{from, to}] }

func (n *network) setCut(from, to string, cut bool) {
	if cut {
		n.cut[[2]string{from, to}] = true
	} else {
		delete(n.cut, [2]string{from, to})
	}
}

// arrives takes a message on its way, and reports whether it gets there.
func (n *network) arrives(from, to string) bool {
	if n.isCut(from, to) {
		return false
	}
	time.Sleep(n.delay())
	return !n.isCut(from, to) && (n.lose == 0 || !n.w.chance(n.lose))
}

var (
	errRefused = errors.New("connection refused")
	errReset   = errors.New("connection reset by peer")
	errTimeout = errors.New("i/o timeout")
)
