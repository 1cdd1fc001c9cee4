package elect

import (
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// ring is election on a ring, where at most one of several initiators' runs
// continues.
//
// A process that finds the leader gone sends Election with its own id to its
// successor. A process that gets one passes it on if its id is better than its
// own, and otherwise replaces that id by its own. A process that receives its
// own id is the best of all, and sends Elected around. Every message names its
// initiator: a process remembers the highest initiator that it has seen, and
// stops the runs of lower ones.
//
// If a failure detector reports that a process has crashed, messages about that
// process stop. A process that gets the report begins again, in a round above
// every round that it has seen: a higher round stops any lower one. The ring
// closes around processes reported as crashed.
type ring struct {
	Id        int
	Leader    int
	Round     int
	Initiator int // the highest one seen in this round
	Begins    bool
	Gone      set // processes named by the detector
}

const (
	election sim.Kind = iota
	elected
)

func (p *ring) Init(net *sim.Port) {
	if p.Begins {
		p.begin(net)
	}
}

func (p *ring) begin(net *sim.Port) {
	p.Initiator = p.Id
	p.send(net, sim.Message{Kind: election, ID: p.Id, By: p.Id, Round: p.Round})
}

// lower reports whether a message belongs to a run that a higher one has
// stopped.
func (p *ring) lower(m sim.Message) bool {
	return m.Round < p.Round || m.Round == p.Round && m.By < p.Initiator
}

func (p *ring) Receive(net *sim.Port, m sim.Message) {
	if p.lower(m) {
		return
	}
	p.Round, p.Initiator = m.Round, m.By
	switch {
	case p.Gone.has(m.ID):
		p.anew(net)
	case m.Kind == election && m.ID == p.Id:
		p.elect(net, p.Id)
		m.Kind = elected
		p.send(net, m)
	case m.Kind == election:
		m.ID = max(m.ID, p.Id)
		p.send(net, m)
	case m.ID != p.Id: // Elected that has not been all around
		p.elect(net, m.ID)
		p.send(net, m)
	}
}

func (p *ring) Suspect(net *sim.Port, peer int) {
	p.Gone.add(peer)
	if p.Leader == peer {
		p.elect(net, sim.NoProcess)
	}
	p.anew(net)
}

func (p *ring) anew(net *sim.Port) {
	p.Round++
	p.begin(net)
}

func (p *ring) Timeout(*sim.Port, int) {}

func (p *ring) elect(net *sim.Port, leader int) {
	p.Leader = leader
	net.Elect(leader)
}

// send passes a message to the next process that is not reported as crashed.
func (p *ring) send(net *sim.Port, m sim.Message) { net.NextBut(p.Gone.has, m) }

var ringSpec = spec.Algorithm{
	Name:   "ring",
	Line:   "election on a ring; the run of the highest initiator continues, the others are stopped",
	Family: spec.Election,
	Breaks: "the best process crashes once its Election is under way: it circulates forever",
	Kinds:  []sim.KindInfo{{Name: "election", Carries: "id by"}, {Name: "elected", Carries: "id by"}},
	New: func(c spec.Case, id int) sim.Process {
		return &ring{Id: id, Leader: sim.NoProcess, Initiator: sim.NoProcess, Begins: c.Starts(id)}
	},
	Ring: true, Decides: elected,
	Best: shortWays, Worst: longWays,
	Expect: func(c spec.Case) *spec.Expected {
		if len(c.Initiators) > 1 {
			return ringSeveral(c)
		}
		return ringOne(c)
	},
}
