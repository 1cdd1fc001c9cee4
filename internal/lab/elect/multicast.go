package elect

import (
	"github.com/stoutlock/stout/internal/lab/sim"
	"github.com/stoutlock/stout/internal/lab/spec"
)

// multicast is election where everybody can send to everybody. Who finds the
// leader gone multicasts its id. Who hears of an election for the first time
// multicasts its own. Everybody waits until all answers must be here, which is
// two message times, and takes the highest id that it heard of.
//
// Two improvements lead to bully. First, only who disagrees speaks: a process
// whose id is lower than one that it heard of stays silent
// (multicast-disagree). Second, who wants to be leader asks the higher ones
// only, and tells the result to the lower ones: that is bully.
type multicast struct {
	Id        int
	Best      int
	Spoke     bool
	Waits     bool
	Leader    int
	Disagrees bool // only who disagrees speaks
	Begins    bool
}

const allAnswers = 0

func (p *multicast) Init(net *sim.Port) {
	if p.Begins {
		p.speak(net)
	}
}

func (p *multicast) speak(net *sim.Port) {
	p.Spoke = true
	p.Best = max(p.Best, p.Id)
	net.Others(sim.Message{Kind: election, ID: p.Id})
	p.wait(net)
}

func (p *multicast) wait(net *sim.Port) {
	if !p.Waits {
		p.Waits = true
		net.After(2*net.Bound(), allAnswers)
	}
}

func (p *multicast) Receive(net *sim.Port, m sim.Message) {
	p.Best = max(p.Best, m.ID)
	if !p.Spoke && (!p.Disagrees || p.Best < p.Id) {
		p.speak(net)
	}
	if p.Leader == sim.Nobody {
		p.wait(net)
	}
}

func (p *multicast) Timeout(net *sim.Port, _ int) {
	p.Leader = p.Best
	net.Elect(p.Best)
}

func multicastOf(disagrees bool) func(spec.Case, int) sim.Process {
	return func(c spec.Case, id int) sim.Process {
		return &multicast{Id: id, Best: sim.Nobody, Leader: sim.Nobody, Disagrees: disagrees, Begins: c.Starts(id)}
	}
}

var multicastKinds = []sim.KindInfo{{Name: "election", Carries: "id"}}

var multicastSpec = spec.Algorithm{
	Name:   "multicast",
	Line:   "everybody multicasts its id and takes the highest that it hears of",
	Family: spec.Election,
	Breaks: "a message later than the bound, or a crash in the middle of a multicast: two leaders",
	Kinds:  multicastKinds,
	Crowd:  true,
	New:    multicastOf(false),
	Expect: func(c spec.Case) *spec.Expected {
		return &spec.Expected{
			Messages: spec.Exactly(c.N * (c.N - 1)), Turnaround: spec.Range{Min: 1, Max: 3},
			Formula: "N(N−1)", Source: "the lab's own count; all multicast once",
		}
	},
}

var disagreeSpec = spec.Algorithm{
	Name:   "multicast-disagree",
	Line:   "as multicast, but only who has a higher id answers",
	Family: spec.Election,
	Breaks: multicastSpec.Breaks,
	Kinds:  multicastKinds,
	Crowd:  true,
	New:    multicastOf(true),
	Expect: func(c spec.Case) *spec.Expected {
		low := c.Initiators[0]
		for _, id := range c.Initiators {
			low = min(low, id)
		}
		speakers := spec.Range{Min: len(c.Initiators), Max: c.N - low}
		return &spec.Expected{
			Messages:   spec.Range{Min: speakers.Min * (c.N - 1), Max: speakers.Max * (c.N - 1)},
			Turnaround: spec.Range{Min: 1, Max: 3},
			Formula:    "N−1 … (N − lowest initiator)(N−1)", Source: "the lab's own count",
		}
	},
}
