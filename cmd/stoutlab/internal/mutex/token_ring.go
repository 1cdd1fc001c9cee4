package mutex

import (
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// tokenRing is a ring around which one token always travels. A process that has
// it may enter, and passes it on when it leaves, or at once if it does not want
// to enter.
type tokenRing struct {
	Wants  bool
	Inside bool
	Begins bool // it has the token at the start
}

const ringToken sim.Kind = 0

func (p *tokenRing) Init(net *sim.Port) {
	if p.Begins {
		p.hold(net)
	}
}

func (p *tokenRing) Request(*sim.Port) { p.Wants = true }

func (p *tokenRing) Receive(net *sim.Port, _ sim.Message) { p.hold(net) }

// hold receives the token and uses it or passes it on.
func (p *tokenRing) hold(net *sim.Port) {
	if p.Wants {
		p.Wants, p.Inside = false, true
		enter(net)
		return
	}
	net.Next(sim.Message{Kind: ringToken})
}

func (p *tokenRing) Release(net *sim.Port) {
	p.Inside = false
	net.Next(sim.Message{Kind: ringToken})
}

func (p *tokenRing) Timeout(*sim.Port, int) {}

var tokenRingSpec = spec.Algorithm{
	Name:   "token-ring",
	Line:   "one token travels around a ring, even if no process wants to enter",
	Family: spec.Mutex,
	Breaks: "the token is lost: no process enters any more",
	Kinds:  []sim.KindInfo{{Name: "token"}},
	New: using(func(_ spec.Case, id int) Lock {
		return &tokenRing{Begins: id == 0}
	}),
	Ring: true, Forever: true,
	Expect: func(c spec.Case) *spec.Expected {
		// Before the first entry the token makes at most N−1 hops, between two
		// entries at most N, and one after the last.
		n, all := c.N, entries(c)
		e := &spec.Expected{
			Messages: spec.Range{Min: all, Max: n * all}, Turnaround: spec.Range{Min: 1, Max: (n + 1) * all},
			Formula: "1 … N an entry, and without one as well; client delay 0 … N, synchronization delay 1 … N",
			Source:  books,
		}
		return e.Delays(spec.Range{Min: 0, Max: n}, spec.Range{Min: 1, Max: n})
	},
}
