package elect

import (
	"fmt"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// itaiRodeh elects on a ring without ids, by random choice. Processes know n,
// the size of the ring. In each round the active processes draw an id from 1 to
// n and send it around, with its hop count and a flag for a second drawer. A
// higher (round, id) makes an active process passive; an active process
// swallows a lower one. A process that receives its own message, after n hops,
// is the leader if no other process drew that id; otherwise it begins the next
// round.
type itaiRodeh struct {
	Active bool
	Round  int
	Drawn  int
	Leader bool
	ghost  int // the index in the network, for the announcement only
}

const (
	token sim.Kind = iota
	irElected
)

// By is alone in a token until another process is known to have drawn its id.
const alone = 1

func (p *itaiRodeh) Init(net *sim.Port) {
	p.Active = true
	p.draw(net)
}

func (p *itaiRodeh) draw(net *sim.Port) {
	p.Round++
	p.Drawn = 1 + net.Rand().IntN(net.N())
	net.Next(sim.Message{Kind: token, ID: p.Drawn, Round: p.Round, Hops: 1, By: alone})
}

func (p *itaiRodeh) Receive(net *sim.Port, m sim.Message) {
	switch {
	case m.Kind == irElected:
		if m.Hops < net.N() {
			net.Elect(m.ID)
			m.Hops++
			net.Next(m)
		}
	case !p.Active:
		m.Hops++
		net.Next(m)
	case m.Hops == net.N() && m.By == alone:
		p.Leader = true
		net.Elect(p.ghost)
		net.Next(sim.Message{Kind: irElected, ID: p.ghost, Hops: 1})
	case m.Hops == net.N():
		p.draw(net)
	case m.Round == p.Round && m.ID == p.Drawn:
		m.By = 0
		m.Hops++
		net.Next(m)
	case m.Round > p.Round || m.Round == p.Round && m.ID > p.Drawn:
		p.Active = false
		m.Hops++
		net.Next(m)
	}
}

func (p *itaiRodeh) Timeout(*sim.Port, int) {}

func (p *itaiRodeh) String() string {
	return fmt.Sprintf("{Active:%t Round:%d Drawn:%d Leader:%t}", p.Active, p.Round, p.Drawn, p.Leader)
}

var itaiRodehSpec = spec.Algorithm{
	Name:   "itai-rodeh",
	Line:   "a ring without ids, but of known size: elects by chance, with probability 1",
	Family: spec.Election,
	Breaks: "a process that crashes takes messages with it, and n is wrong from then on",
	Kinds:  []sim.KindInfo{{Name: "token", Carries: "id round hops"}, {Name: "elected", Carries: "hops"}},
	New: func(_ spec.Case, id int) sim.Process {
		return &itaiRodeh{ghost: id}
	},
	Ring: true, All: true, Winner: spec.Anybody, Decides: irElected,
	Expect: func(c spec.Case) *spec.Expected {
		// One round at best: n + (n−1) hops, with ascending ids. There is no
		// bound for the worst case, so the range is generous; n log n is
		// expected.
		return &spec.Expected{
			Messages:   spec.Range{Min: min(3*c.N-1, 2*c.N), Max: 20 * hsBound(c.N)},
			Turnaround: spec.Range{Min: 2 * c.N, Max: 50 * c.N},
			Formula:    "O(n log n) expected; no bound", Source: "Itai, Rodeh 1981; Fokkink, Distributed Algorithms",
		}
	},
}
