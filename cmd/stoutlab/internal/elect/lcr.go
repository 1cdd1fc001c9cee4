package elect

import (
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// lcr is the algorithm of Le Lann, Chang and Roberts in the form that the books
// analyse: every candidate sends its id around; a candidate passes higher ids
// on and swallows lower ones. A candidate that receives its own id is the
// leader, and informs all. Other processes pass everything on.
type lcr struct {
	Id        int
	Leader    int
	Candidate bool
}

func (p *lcr) Init(net *sim.Port) {
	if p.Candidate {
		net.Next(sim.Message{Kind: election, ID: p.Id})
	}
}

func (p *lcr) Receive(net *sim.Port, m sim.Message) {
	switch {
	case m.Kind == elected && m.ID != p.Id:
		p.Leader = m.ID
		net.Elect(m.ID)
		net.Next(m)
	case m.Kind == elected:
	case m.ID == p.Id:
		p.Leader = p.Id
		net.Elect(p.Id)
		net.Next(sim.Message{Kind: elected, ID: p.Id})
	case m.ID > p.Id || !p.Candidate:
		net.Next(m)
	}
}

func (p *lcr) Timeout(*sim.Port, int) {}

var lcrSpec = spec.Algorithm{
	Name:   "lcr",
	Line:   "Le Lann, Chang, Roberts: ids go around, lower ones are swallowed; n log n on average, n² at worst",
	Family: spec.Election,
	Breaks: "the best process crashes once its id is under way: it circulates forever",
	Kinds:  []sim.KindInfo{{Name: "election", Carries: "id"}, {Name: "elected", Carries: "id"}},
	New: func(c spec.Case, id int) sim.Process {
		return &lcr{Id: id, Leader: sim.NoProcess, Candidate: c.Starts(id)}
	},
	Ring: true, All: true, Candidates: true, Anew: true, Decides: elected,
	Best: shortWays, Worst: longWays,
	Expect: func(c spec.Case) *spec.Expected {
		n := c.N
		e := &spec.Expected{
			Messages:   spec.Range{Min: 2 * n, Max: n*(n+1)/2 + n},
			Turnaround: spec.Range{Min: 2 * n, Max: 3*n - 1},
			Formula:    "2n … n(n+1)/2 + n", Source: "Lynch, Distributed Algorithms, 3.3",
		}
		if len(c.Initiators) == n {
			e.Messages.Min = 3*n - 1 // every id makes one hop, the highest n, and the announcement n
			e.Turnaround = spec.Exactly(2 * n)
			e.Formula = "3n−1 … n(n+1)/2 + n"
		}
		return e
	},
}
