package sim

import (
	"math"
	"math/rand/v2"
)

// Process is one process of an algorithm: a state machine. It must not keep the
// Port beyond the call, and may use only its own fields, the message and the
// Port. Its fields are printed with %+v into traces and compared as states, so
// they hold no pointers.
type Process interface {
	// Init is the first call, at time 0, or at a restart of a Restarter.
	Init(net *Port)
	// Receive handles a message.
	Receive(net *Port, m Message)
	// Timeout handles the end of the timer with that name.
	Timeout(net *Port, timer int)
}

// Suspecter is a process that listens to its failure detector.
type Suspecter interface {
	// Suspect reports that the detector considers peer crashed, correctly or
	// not.
	Suspect(net *Port, peer int)
}

// Restarter is a process that can restart after a crash. Restart drops state
// that was only in memory; Init is called after it.
type Restarter interface {
	Restart()
}

// Port is a process's access to the network while it handles one event. If the
// process crashes within the event, later calls do nothing.
type Port struct {
	n    *Network
	self int
	era  int
	gone func(id int) bool
}

// N is the number of processes, Self the caller's index among them, which is
// its id and its attribute.
func (p *Port) N() int    { return p.n.cfg.N }
func (p *Port) Self() int { return p.self }

// Bound is the largest latency that time-outs assume. It may be wrong.
func (p *Port) Bound() Time { return p.n.cfg.Bound }

// Now is the time on the process's own clock.
func (p *Port) Now() Time { return p.n.local(p.self) }

// Rand is the run's source of randomness.
func (p *Port) Rand() *rand.Rand {
	p.n.chance = true
	return p.n.rng
}

// Send sends a message.
func (p *Port) Send(to int, m Message) { p.send(to, 0, m) }

// Next sends to the successor in the ring, and Previous to the predecessor. The
// ring closes around a process that has crashed.
func (p *Port) Next(m Message)     { p.around(+1, p.gone, m) }
func (p *Port) Previous(m Message) { p.around(-1, p.gone, m) }

// NextBut sends to the next process in the ring for which skip is false.
func (p *Port) NextBut(skip func(id int) bool, m Message) { p.around(+1, skip, m) }

func (p *Port) around(direction int, skip func(id int) bool, m Message) {
	to := p.n.neighbour(p.self, direction)
	for skip != nil && to != p.self && skip(to) {
		to = p.n.neighbour(to, direction)
	}
	p.send(to, direction, m)
}

func (p *Port) send(to, around int, m Message) {
	m.Era = p.era
	p.n.send(p.self, to, around, m)
}

// InEra marks messages from now until the end of the event with the era, and
// removes the gone processes from the ring. A process that restarts an election
// thus separates its runs.
func (p *Port) InEra(era int, gone func(id int) bool) { p.era, p.gone = era, gone }

// Others sends to every process but the caller.
func (p *Port) Others(m Message) {
	for to := range p.n.cfg.N {
		if to != p.self {
			p.Send(to, m)
		}
	}
}

// After sets the timer of that name to fire d units from now, on the process's
// own clock; a running timer is reset. At equal times messages come before
// timers.
func (p *Port) After(d Time, timer int) { p.n.after(p.self, d, timer) }

// Stop stops a timer.
func (p *Port) Stop(timer int) { p.n.stop(p.self, timer) }

// Elect records that the process now believes in this leader.
func (p *Port) Elect(leader int) { p.n.elect(p.self, leader) }

// Lead records that the process acts as the only leader until its own clock
// shows the given time.
func (p *Port) Lead(until Time) { p.n.lead(p.self, until) }

// Tally counts one at index i of a tally in the run's outcome, such as the
// winners of a phase.
func (p *Port) Tally(i int) { p.n.tally(i) }

// Want, Enter and Leave record that the process asks for the critical section,
// is in it, and has left it.
func (p *Port) Want()  { p.n.section(p.self, Want) }
func (p *Port) Enter() { p.n.section(p.self, Enter) }
func (p *Port) Leave() { p.n.section(p.self, Leave) }

// Note writes a line into the trace.
func (p *Port) Note(text string) { p.n.note(p.self, Noted, text) }

// local returns the time on a process's clock.
func (n *Network) local(p int) Time { return Time(math.Floor(float64(n.now) * n.rate(p))) }

func (n *Network) rate(p int) float64 {
	if p < len(n.cfg.Rates) {
		return n.cfg.Rates[p]
	}
	return 1
}
