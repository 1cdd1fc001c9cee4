package elect

import (
	"fmt"
	"math/rand/v2"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// anonymous is a deterministic machine from a large family, the same one in
// every process of a ring without ids. In each round a machine sends a symbol
// to its successor, receives its predecessor's symbol, and enters the state
// that a table gives. Some states mean "I am the leader".
//
// All begin in the same state, so all send the same symbols and stay in equal
// states (Angluin 1980): after every round either all are leaders or no process
// is. The table is drawn from the seed; no seed elects one leader of two or
// more.
type anonymous struct {
	State  int
	Round  int
	Leads  bool
	table  *table
	ghost  int // the index in the network, which the machine does not use
	rounds int
}

type table struct {
	next   [machineStates][machineSymbols]int
	symbol [machineStates]int
	leads  [machineStates]bool
}

const (
	machineStates  = 8
	machineSymbols = 4

	symbol sim.Kind = 0
)

func drawTable(seed uint64) *table {
	rng := rand.New(rand.NewPCG(seed, 0xa0041))
	t := &table{}
	for s := range machineStates {
		t.symbol[s] = rng.IntN(machineSymbols)
		t.leads[s] = s > 0 && rng.IntN(4) == 0
		for i := range machineSymbols {
			t.next[s][i] = rng.IntN(machineStates)
		}
	}
	return t
}

func (p *anonymous) Init(net *sim.Port) { p.send(net) }

func (p *anonymous) send(net *sim.Port) {
	net.Next(sim.Message{Kind: symbol, ID: p.table.symbol[p.State], Round: p.Round})
}

func (p *anonymous) Receive(net *sim.Port, m sim.Message) {
	if p.Leads || p.Round == p.rounds {
		return
	}
	p.State = p.table.next[p.State][m.ID]
	p.Round++
	if p.Leads = p.table.leads[p.State]; p.Leads {
		net.Elect(p.ghost)
		return
	}
	if p.Round < p.rounds {
		p.send(net)
	}
}

func (p *anonymous) Timeout(*sim.Port, int) {}

func (p *anonymous) String() string {
	return fmt.Sprintf("{State:%d Round:%d Leads:%t}", p.State, p.Round, p.Leads)
}

var anonymousSpec = spec.Algorithm{
	Name:   "anonymous",
	Line:   "a ring without ids: no deterministic machine elects; the seed draws the machine",
	Family: spec.Election,
	Breaks: "symmetry: all processes are in the same state after every round",
	Kinds:  []sim.KindInfo{{Name: "symbol", Carries: "id"}},
	New: func(c spec.Case, id int) sim.Process {
		// After as many rounds as there are states, a state has repeated, and
		// everything after it repeats as well.
		return &anonymous{table: drawTable(c.Seed), ghost: id, rounds: machineStates}
	},
	Ring: true, All: true, Winner: spec.Anybody,
	Expect: func(c spec.Case) *spec.Expected {
		return &spec.Expected{
			Messages:   spec.Range{Min: c.N, Max: machineStates * c.N},
			Turnaround: spec.Range{Min: 1, Max: machineStates},
			Formula:    "N a round", Source: "Angluin 1980; Lynch, Distributed Algorithms, 3.2",
		}
	},
}
