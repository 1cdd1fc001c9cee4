package elect

import (
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// syncRing elects by waiting. In a synchronous ring of known size n silence is
// a message: process i waits until slice i, which begins at i·n units. If it
// has received no id by then, there is no lower id; it elects itself and
// informs all. It needs n messages in total, in any order of ids. The algorithm
// counts with ids instead of comparing them, so the bound of n log n for
// comparisons does not apply. The price is time: n · (lowest id).
type syncRing struct {
	Id     int
	Leader int
}

const mySlice = 0

func (p *syncRing) Init(net *sim.Port) {
	net.After(sim.Time(p.Id)*sim.Time(net.N())*net.Bound(), mySlice)
}

func (p *syncRing) Timeout(net *sim.Port, _ int) {
	p.Leader = p.Id
	net.Elect(p.Id)
	net.Next(sim.Message{Kind: 0, ID: p.Id})
}

func (p *syncRing) Receive(net *sim.Port, m sim.Message) {
	if m.ID == p.Id {
		return
	}
	net.Stop(mySlice)
	p.Leader = m.ID
	net.Elect(m.ID)
	net.Next(m)
}

var syncRingSpec = spec.Algorithm{
	Name:   "sync-ring",
	Line:   "a synchronous ring: the lowest id wins by waiting (TimeSlice), with n messages",
	Family: spec.Election,
	Breaks: "a message that takes longer than the bound: a second process relies on the silence",
	Kinds:  []sim.KindInfo{{Name: "elected", Carries: "id"}},
	New: func(_ spec.Case, id int) sim.Process {
		return &syncRing{Id: id, Leader: sim.NoProcess}
	},
	Ring: true, All: true, Winner: spec.Lowest, Decides: 0,
	Best: spec.Ascending, Worst: spec.Descending,
	Expect: func(c spec.Case) *spec.Expected {
		return &spec.Expected{
			Messages: spec.Exactly(c.N), Turnaround: spec.Exactly(c.N + 1),
			Formula: "n, after n · lowest id of waiting", Source: "Lynch, Distributed Algorithms, 3.5",
		}
	},
	Note: "the smallest id wins",
}
