package elect

import (
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// naive is election on a ring that ignores other initiators: every initiator's
// run circulates completely, twice. All runs elect the same process.
type naive struct {
	Id     int
	Leader int
	Begins bool
}

func (p *naive) Init(net *sim.Port) {
	if p.Begins {
		net.Next(sim.Message{Kind: election, ID: p.Id, By: p.Id})
	}
}

func (p *naive) Receive(net *sim.Port, m sim.Message) {
	switch {
	case m.Kind == election && m.ID == p.Id:
		p.Leader = p.Id
		net.Elect(p.Id)
		net.Next(sim.Message{Kind: elected, ID: p.Id, By: m.By})
	case m.Kind == election:
		m.ID = max(m.ID, p.Id)
		net.Next(m)
	case m.ID != p.Id:
		p.Leader = m.ID
		net.Elect(m.ID)
		net.Next(m)
	}
}

func (p *naive) Timeout(*sim.Port, int) {}

var naiveSpec = spec.Algorithm{
	Name:   "ring-naive",
	Line:   "election on a ring; the runs of all initiators circulate",
	Family: spec.Election,
	Breaks: "as ring; k initiators cost k times as much",
	Kinds:  ringSpec.Kinds,
	New: func(c spec.Case, id int) sim.Process {
		return &naive{Id: id, Leader: sim.NoProcess, Begins: c.Starts(id)}
	},
	Ring: true, Anew: true, Decides: elected,
	Best: shortWays, Worst: longWays,
	Expect: func(c spec.Case) *spec.Expected {
		sum, longest := 0, 0
		for _, from := range c.Initiators {
			run := 2*c.N + c.Distance(from, c.N-1)
			sum, longest = sum+run, max(longest, run)
		}
		return &spec.Expected{
			Messages:   spec.Exactly(sum),
			Turnaround: spec.Range{Min: longest, Max: sum},
			Formula:    "Σ 2N + hops to the best", Source: courseUIUC,
		}
	},
}
