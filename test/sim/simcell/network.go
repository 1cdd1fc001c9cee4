package simcell

import (
	"errors"
	"math/rand/v2"
	"time"
)

// network delivers, delays and loses messages between machines and users.
type network struct {
	w     *world
	cut   map[[2]string]bool          // from, to
	lag   map[[2]string]time.Duration // extra delay of a message
	calm  time.Duration               // least delay of a message
	worst time.Duration               // greatest delay
	lose  int                         // one message in this many is lost; 0 = none
	twice int                         // one in this many arrives twice
	stuck int                         // one in this many takes seconds
	again int                         // one in this many has a late copy; 0 = none
	lates *rand.Rand                  // draws the late copies
}

func newNetwork(w *world) *network {
	n := &network{
		w: w, cut: map[[2]string]bool{}, lag: map[[2]string]time.Duration{},
		again: w.profile.again, lates: rand.New(rand.NewPCG(w.opts.Seed, 7)),
	}
	n.fair()
	return n
}

// fair makes the network reliable again. Cuts stay.
func (n *network) fair() {
	n.calm, n.worst, n.lose, n.twice, n.stuck = 100*time.Microsecond, n.w.profile.near, 0, 0, n.w.profile.stuck
}

// delay returns the delay of one message. Messages overtake each other.
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

// arrives waits for the delay of a message and reports whether it arrives.
func (n *network) arrives(from, to string) bool { return n.arrivesOf(from, to, n.w.now()) }

// arrivesOf is arrives for a message sent at an earlier time.
func (n *network) arrivesOf(from, to string, sent time.Duration) bool {
	if n.isCut(from, to) {
		return false
	}
	time.Sleep(sent + n.delay() + n.lag[[2]string{from, to}] - n.w.now())
	return !n.isCut(from, to) && (n.lose == 0 || !n.w.chance(n.lose))
}

// mostLate is the greatest delay of a copy: offices, sessions and processes end
// within that time.
const mostLate = 30 * time.Second

// repeat delivers a late copy of one message in so many, and reports whether it
// will. A connection that its sender has given up still delivers its data, and
// proxies resend requests. The sender may be dead by then, and the answer is
// dropped.
func (n *network) repeat(often int, deliver func()) bool {
	if often == 0 || n.lates.IntN(often) > 0 {
		return false
	}
	n.w.stats.fault("late copy")
	n.w.later(between(n.lates, time.Millisecond, mostLate), func() {
		if !n.w.faultsOver {
			deliver()
		}
	})
	return true
}

// These bound the pause before a connection resends lost data. Each pause is
// twice as long as the previous one (RFC 6298).
const (
	firstRepeat = 200 * time.Millisecond
	lastRepeat  = 3200 * time.Millisecond
)

// conveys waits for the delay of a part of a stream; lost parts are resent. It
// returns false if the connection is given up.
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
