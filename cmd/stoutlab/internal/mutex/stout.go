package mutex

import (
	"slices"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// stoutUser asks a cell for a lock, as a client of Stout does: acquire, grant
// with a token, release. A grant has a higher token than the one before;
// otherwise it is a duplicate. A grant for a duplicate of acquire goes back at
// once.
type stoutUser struct {
	Token int
	Wants bool
}

// stoutCell is the cell from outside: one node that does not fail, because it
// is replicated. It has the queue, and a counter for growing tokens. A release
// and the next grant are one step; so are the end of a session and the next
// grant.
type stoutCell struct {
	Holder int
	Token  int
	Queue  []int
	Ended  []int // owners of ended sessions: they get no more grants
}

func (p *stoutUser) Init(*sim.Port)         {}
func (p *stoutUser) Timeout(*sim.Port, int) {}

func (p *stoutUser) Request(net *sim.Port) {
	p.Wants = true
	net.Send(net.N(), sim.Message{Kind: request})
}

func (p *stoutUser) Release(net *sim.Port) {
	net.Send(net.N(), sim.Message{Kind: release, Round: p.Token})
}

func (p *stoutUser) Receive(net *sim.Port, m sim.Message) {
	if m.Round <= p.Token {
		return
	}
	p.Token = m.Round
	if !p.Wants {
		p.Release(net)
		return
	}
	p.Wants = false
	enter(net)
}

func (p *stoutCell) Init(*sim.Port)         {}
func (p *stoutCell) Timeout(*sim.Port, int) {}
func (p *stoutCell) Request(*sim.Port)      {}
func (p *stoutCell) Release(*sim.Port)      {}

func (p *stoutCell) Receive(net *sim.Port, m sim.Message) {
	switch {
	case slices.Contains(p.Ended, m.From):
	case m.Kind == request && slices.Contains(p.Queue, m.From): // it asks once at a time: a duplicate
	case m.Kind == request:
		p.Queue = append(p.Queue, m.From)
	case p.Holder == m.From && p.Token == m.Round:
		p.Holder = sim.NoProcess
	}
	p.grant(net)
}

func (p *stoutCell) grant(net *sim.Port) {
	if p.Holder != sim.NoProcess || len(p.Queue) == 0 {
		return
	}
	p.Holder, p.Queue = p.Queue[0], p.Queue[1:]
	p.Token++
	net.Send(p.Holder, sim.Message{Kind: grant, Round: p.Token})
}

// Suspect is the end of a session: its hold and its queue position end with it.
func (p *stoutCell) Suspect(net *sim.Port, peer int) {
	p.Ended = append(p.Ended, peer)
	p.Queue = slices.DeleteFunc(p.Queue, func(id int) bool { return id == peer })
	if p.Holder == peer {
		p.Holder = sim.NoProcess
	}
	p.grant(net)
}

var stoutSpec = spec.Algorithm{
	Name:   "stout",
	Line:   "a lock of a replicated cell: queue, session and fencing token",
	Family: spec.Mutex,
	Breaks: "a session that ends while its user is still at work: hence the token, which the resource checks",
	Kinds: []sim.KindInfo{
		{Name: "acquire"}, {Name: "grant", Carries: "round"}, {Name: "release", Carries: "round"},
	},
	New: using(func(c spec.Case, id int) Lock {
		if id == c.N {
			return &stoutCell{Holder: sim.NoProcess}
		}
		return &stoutUser{}
	}),
	Extra: 1, Session: true,
	Expect: func(c spec.Case) *spec.Expected {
		e := &spec.Expected{
			Messages: spec.Exactly(3 * entries(c)), Turnaround: spec.Range{Min: 0, Max: 6 * entries(c)},
			Formula: "3 an entry; client delay 2, synchronization delay 2; replication within the cell not counted",
			Source:  "docs/design.md",
		}
		return e.Delays(spec.Exactly(2), spec.Exactly(2))
	},
}
