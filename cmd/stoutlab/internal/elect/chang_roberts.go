package elect

import (
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// changRoberts is election on a ring where a participating process lets no
// worse id pass: it has already sent its own or a better one.
type changRoberts struct {
	Id          int
	Leader      int
	Participant bool
	Begins      bool
}

func (p *changRoberts) Init(net *sim.Port) {
	if p.Begins {
		p.Participant = true
		net.Next(sim.Message{Kind: election, ID: p.Id})
	}
}

func (p *changRoberts) Receive(net *sim.Port, m sim.Message) {
	switch {
	case m.Kind == election && m.ID > p.Id:
		p.Participant = true
		net.Next(m)
	case m.Kind == election && m.ID == p.Id:
		p.become(net, p.Id)
		net.Next(sim.Message{Kind: elected, ID: p.Id})
	case m.Kind == election && !p.Participant:
		p.Participant = true
		net.Next(sim.Message{Kind: election, ID: p.Id})
	case m.Kind == elected && m.ID != p.Id:
		p.become(net, m.ID)
		net.Next(m)
	}
}

func (p *changRoberts) become(net *sim.Port, leader int) {
	p.Participant = false
	p.Leader = leader
	net.Elect(leader)
}

func (p *changRoberts) Timeout(*sim.Port, int) {}

var changRobertsSpec = spec.Algorithm{
	Name:   "chang-roberts",
	Line:   "election on a ring; a participant lets no worse id pass",
	Family: spec.Election,
	Breaks: "the best process crashes once its Election is under way: it circulates forever",
	Kinds:  []sim.KindInfo{{Name: "election", Carries: "id"}, {Name: "elected", Carries: "id"}},
	New: func(c spec.Case, id int) sim.Process {
		return &changRoberts{Id: id, Leader: sim.NoProcess, Begins: c.Starts(id)}
	},
	Ring: true, Anew: true, Decides: elected,
	Best: shortWays, Worst: longWays,
	Expect: func(c spec.Case) *spec.Expected {
		if len(c.Initiators) == 1 {
			return ringOne(c)
		}
		// Every id travels at most to the best process, the best one's all
		// around, then Elected. With all initiating in descending order:
		// N(N+1)/2 + N.
		n := c.N
		e := &spec.Expected{
			Messages:   spec.Range{Min: 2 * n, Max: n*(n+1)/2 + n},
			Turnaround: spec.Range{Min: 2 * n, Max: 3*n - 1},
			Formula:    "2N … N(N+1)/2 + N", Source: "Chang, Roberts 1979; Coulouris et al., 15.3.1",
		}
		if len(c.Initiators) == n {
			e.Messages.Min = 3*n - 1
			e.Formula = "3N−1 … N(N+1)/2 + N"
		}
		return e
	},
}
