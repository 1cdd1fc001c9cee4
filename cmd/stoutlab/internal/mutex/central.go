package mutex

import (
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// central is a lock that a server, process 0, grants: request, grant, release.
// Requests during a grant wait in the server's queue.
type central struct {
	Held  bool // at the server: a process is inside
	Queue []int
}

const server = 0

const (
	request sim.Kind = iota
	grant
	release
)

func (p *central) Init(*sim.Port) {}

func (p *central) Request(net *sim.Port) { net.Send(server, sim.Message{Kind: request}) }
func (p *central) Release(net *sim.Port) { net.Send(server, sim.Message{Kind: release}) }

func (p *central) Receive(net *sim.Port, m sim.Message) {
	switch m.Kind {
	case request:
		if p.Held {
			p.Queue = append(p.Queue, m.From)
			return
		}
		p.Held = true
		net.Send(m.From, sim.Message{Kind: grant})
	case release:
		if p.Held = len(p.Queue) > 0; p.Held {
			net.Send(p.Queue[0], sim.Message{Kind: grant})
			p.Queue = p.Queue[1:]
		}
	case grant:
		enter(net)
	}
}

func (p *central) Timeout(*sim.Port, int) {}

var centralSpec = spec.Algorithm{
	Name:   "central",
	Line:   "a server grants: 2 messages to enter, 1 to leave",
	Family: spec.Mutex,
	Breaks: "the crash of the server, or of the process inside: no process enters any more",
	Kinds:  []sim.KindInfo{{Name: "request"}, {Name: "grant"}, {Name: "release"}},
	New:    using(func(spec.Case, int) Lock { return &central{} }),
	Server: true,
	Expect: func(c spec.Case) *spec.Expected {
		others := entries(c) - c.Entries[server] // the server's own entries cost nothing
		e := &spec.Expected{
			Messages: spec.Exactly(3 * others), Turnaround: spec.Range{Min: 0, Max: 6 * entries(c)},
			Formula: "3 an entry: 2 to enter, 1 to leave; client delay 2, synchronization delay 2", Source: books,
		}
		if c.Entries[server] > 0 { // its own messages to itself take no time
			return e.Delays(spec.Range{Min: 0, Max: 2}, spec.Range{Min: 0, Max: 2})
		}
		return e.Delays(spec.Exactly(2), spec.Exactly(2))
	},
}
