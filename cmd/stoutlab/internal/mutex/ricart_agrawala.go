package mutex

import (
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// ricartAgrawala asks all others, with a Lamport time. A process that is asked
// answers at once. If it is inside, or wants to enter and asked earlier, it
// answers after it has left. A process with all answers is inside. Ties of time
// go to the lower id.
type ricartAgrawala struct {
	Id       int
	Clock    int
	State    wish
	Asked    int // the time of its request
	Answers  int
	Deferred []int // processes that get an answer when it leaves
}

type wish int

const (
	released wish = iota
	wanted
	held
)

const raReply sim.Kind = 1

func (p *ricartAgrawala) Init(*sim.Port) {}

func (p *ricartAgrawala) Request(net *sim.Port) {
	p.Clock++
	p.State, p.Asked, p.Answers = wanted, p.Clock, 0
	net.Others(sim.Message{Kind: request, ID: p.Id, Round: p.Asked})
	p.tryEnter(net)
}

func (p *ricartAgrawala) Receive(net *sim.Port, m sim.Message) {
	switch m.Kind {
	case request:
		p.Clock = max(p.Clock, m.Round) + 1
		if p.State == held || p.State == wanted && p.before(m) {
			p.Deferred = append(p.Deferred, m.From)
			return
		}
		net.Send(m.From, sim.Message{Kind: raReply})
	case raReply:
		p.Answers++
		p.tryEnter(net)
	}
}

// before reports whether its own request is earlier than m's.
func (p *ricartAgrawala) before(m sim.Message) bool {
	return p.Asked < m.Round || p.Asked == m.Round && p.Id < m.ID
}

func (p *ricartAgrawala) tryEnter(net *sim.Port) {
	if p.State == wanted && p.Answers == net.N()-1 {
		p.State = held
		enter(net)
	}
}

func (p *ricartAgrawala) Release(net *sim.Port) {
	p.State = released
	for _, peer := range p.Deferred {
		net.Send(peer, sim.Message{Kind: raReply})
	}
	p.Deferred = nil
}

func (p *ricartAgrawala) Timeout(*sim.Port, int) {}

var ricartSpec = spec.Algorithm{
	Name:   "ricart-agrawala",
	Line:   "asks all others, which answer once they have no earlier request of their own",
	Family: spec.Mutex,
	Breaks: "the crash of any one process: it no longer answers, and all wait",
	Kinds:  []sim.KindInfo{{Name: "request", Carries: "id round"}, {Name: "reply"}},
	Crowd:  true,
	New:    using(func(_ spec.Case, id int) Lock { return &ricartAgrawala{Id: id} }),
	Expect: func(c spec.Case) *spec.Expected {
		e := &spec.Expected{
			Messages: spec.Exactly(2 * (c.N - 1) * entries(c)), Turnaround: spec.Range{Min: 0, Max: 5 * entries(c)},
			Formula: "2(N−1) an entry; client delay 2, synchronization delay 1", Source: books,
		}
		if c.N == 1 {
			return e
		}
		return e.Delays(spec.Exactly(2), spec.Exactly(1))
	},
}
