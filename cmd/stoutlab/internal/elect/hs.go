package elect

import (
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// hs is the algorithm of Hirschberg and Sinclair: candidates conquer growing
// neighbourhoods. In phase k a candidate sends a probe 2^k hops to both sides.
// A probe dies at a higher candidate; at its last hop it is answered. A
// candidate with both answers wins the phase and enters the next. A candidate
// that receives its own probe is the leader.
type hs struct {
	Id        int
	Leader    int
	Candidate bool
	Phase     int
	Replies   int
}

const (
	probe sim.Kind = iota
	reply
	hsElected
)

func (p *hs) Init(net *sim.Port) {
	if p.Candidate {
		p.probe(net)
	}
}

func (p *hs) probe(net *sim.Port) {
	p.Replies = 0
	for _, direction := range []int{+1, -1} {
		along(net, sim.Message{Kind: probe, ID: p.Id, By: direction, Round: p.Phase, Hops: 1})
	}
}

func (p *hs) Receive(net *sim.Port, m sim.Message) {
	switch m.Kind {
	case probe:
		p.probed(net, m)
	case reply:
		p.replied(net, m)
	case hsElected:
		if p.Leader != m.ID {
			p.Leader = m.ID
			net.Elect(m.ID)
			net.Next(m)
		}
	}
}

func (p *hs) probed(net *sim.Port, m sim.Message) {
	switch {
	case m.ID == p.Id && p.Leader != p.Id:
		p.Leader = p.Id
		net.Elect(p.Id)
		net.Next(sim.Message{Kind: hsElected, ID: p.Id})
	case m.ID <= p.Id && p.Candidate:
	case m.Hops < 1<<m.Round:
		m.Hops++
		along(net, m)
	default: // the last hop: send it back
		along(net, sim.Message{Kind: reply, ID: m.ID, By: -m.By, Round: m.Round})
	}
}

func (p *hs) replied(net *sim.Port, m sim.Message) {
	if m.ID != p.Id {
		along(net, m)
		return
	}
	if p.Replies++; p.Replies == 2 {
		net.Tally(p.Phase)
		p.Phase++
		p.probe(net)
	}
}

func (p *hs) Timeout(*sim.Port, int) {}

func along(net *sim.Port, m sim.Message) {
	if m.By > 0 {
		net.Next(m)
	} else {
		net.Previous(m)
	}
}

var hsSpec = spec.Algorithm{
	Name:   "hs",
	Line:   "Hirschberg, Sinclair: neighbourhoods of 1, 2, 4, … are conquered; n log n at worst",
	Family: spec.Election,
	Breaks: "the best process crashes between its phases: no process is elected",
	Kinds: []sim.KindInfo{
		{Name: "probe", Carries: "id round hops"}, {Name: "reply", Carries: "id round"}, {Name: "elected", Carries: "id"},
	},
	New: func(c spec.Case, id int) sim.Process {
		return &hs{Id: id, Leader: sim.NoProcess, Candidate: c.Starts(id)}
	},
	Ring: true, All: true, Candidates: true, Phases: true, Anew: true, Decides: hsElected,
	Best: spec.Ascending, Worst: bitReversed,
	Expect: hsBook,
}
