package mutex

import (
	"fmt"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// Lock is an algorithm, as used by a process that wants to enter. It calls
// net.Enter when the process is inside.
type Lock interface {
	sim.Process
	Request(net *sim.Port) // a process that wants to enter at the start calls it before Init
	Release(net *sim.Port)
}

// user is a process that enters the critical section Left times, stays in it
// for a unit, and asks again one unit after it has left.
type user struct {
	Lock
	Left int
}

// The user's own timers; the algorithm's are 0 and above.
const (
	wants = -1 - iota
	leaves
)

const stay = 1 // length of a stay, and of a pause

// using makes the processes of an algorithm.
func using(make func(c spec.Case, id int) Lock) func(spec.Case, int) sim.Process {
	return func(c spec.Case, id int) sim.Process {
		u := &user{Lock: make(c, id)}
		if id < len(c.Entries) {
			u.Left = c.Entries[id]
		}
		return u
	}
}

func (u *user) Init(net *sim.Port) {
	u.want(net)
	u.Lock.Init(net)
}

func (u *user) want(net *sim.Port) {
	if u.Left > 0 {
		u.Left--
		net.Want()
		u.Request(net)
	}
}

func (u *user) Timeout(net *sim.Port, timer int) {
	switch timer {
	case wants:
		u.want(net)
	case leaves:
		net.Leave()
		u.Release(net)
		if u.Left > 0 {
			net.After(stay, wants)
		}
	default:
		u.Lock.Timeout(net, timer)
	}
}

// Suspect passes the detector's report on, if the algorithm listens.
func (u *user) Suspect(net *sim.Port, peer int) {
	if s, listens := u.Lock.(sim.Suspecter); listens {
		s.Suspect(net, peer)
	}
}

// Listens reports whether the algorithm listens to a detector.
func (u *user) Listens() bool {
	_, listens := u.Lock.(sim.Suspecter)
	return listens
}

func (u *user) String() string { return fmt.Sprintf("%s left:%d", sim.State(u.Lock), u.Left) }

// enter is called by every algorithm once the process may enter.
func enter(net *sim.Port) {
	net.Enter()
	net.After(stay, leaves)
}

// entries returns the number of entries of all processes together.
func entries(c spec.Case) int {
	sum := 0
	for _, e := range c.Entries {
		sum += e
	}
	return sum
}

const books = "Coulouris et al., 15.2; Gupta, Cloud Computing Concepts, mutual exclusion"
