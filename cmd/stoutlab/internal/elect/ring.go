package elect

import (
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// ring is election on a ring, with several initiators at most one of whose runs
// goes on.
//
// Who finds the leader gone sends Election with its own id to its successor. A
// process that gets one passes it on if the id in it is better than its own,
// and else puts its own into it. Whose id comes back is the best of all, and
// sends Elected around. Every message names its initiator: a process remembers
// the highest one that it heard of, and stops the runs of lower ones.
//
// Where a failure detector says that a process has crashed, nothing about that
// process goes any further, and who is told begins anew, in a round higher than
// all that it has heard of: a higher round stops a lower one, whoever began it.
// The ring closes around who is taken for crashed.
type ring struct {
	Id        int
	Leader    int
	Round     int
	Initiator int // the highest that it heard of in this round
	Begins    bool
	Gone      set // whom the detector named
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

// lower reports whether a message is of a run that a higher one has stopped.
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
	case m.ID != p.Id: // Elected, and it has not been all around
		p.elect(net, m.ID)
		p.send(net, m)
	}
}

func (p *ring) Suspect(net *sim.Port, who int) {
	p.Gone.add(who)
	if p.Leader == who {
		p.elect(net, sim.Nobody)
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

// send passes a message to the next process that is not taken for crashed.
func (p *ring) send(net *sim.Port, m sim.Message) { net.NextBut(p.Gone.has, m) }

var ringSpec = spec.Algorithm{
	Name:   "ring",
	Line:   "election on a ring; the run of the highest initiator goes on, the others are stopped",
	Family: spec.Election,
	Breaks: "the best process crashes once its Election is under way: it circulates for ever",
	Kinds:  []sim.KindInfo{{Name: "election", Carries: "id by"}, {Name: "elected", Carries: "id by"}},
	New: func(c spec.Case, id int) sim.Process {
		return &ring{Id: id, Leader: sim.Nobody, Initiator: sim.Nobody, Begins: c.Starts(id)}
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
