package elect

import (
	"fmt"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// anew repairs an algorithm that knows nothing of crashes. Whoever is told of
// one drops what it was in, and begins the election from the start, in an era
// of its own: one for each crash that it has heard of. What was sent in an
// earlier era is dropped, and what was sent in a later one waits until this
// process has heard of as many crashes. Who is taken for crashed is left out of
// the ring.
//
// A perfect detector tells all of every crash: so all come to the same last
// era, and in it nobody crashes.
type anew struct {
	sim.Process
	fresh func() sim.Process
	Era   int
	Early []sim.Message // of later eras
	Gone  set
}

// BeginsAnew is a process of the algorithm that begins anew, as all others do,
// whenever its detector tells it of a crash.
func BeginsAnew(a spec.Algorithm, c spec.Case, id int) sim.Process {
	all := c
	all.Initiators = spec.Ascending(c.N, nil)
	return &anew{Process: a.New(c, id), fresh: func() sim.Process { return a.New(all, id) }}
}

func (p *anew) Receive(net *sim.Port, m sim.Message) {
	switch {
	case m.Era > p.Era:
		p.Early = append(p.Early, m)
	case m.Era == p.Era:
		net.InEra(p.Era, p.Gone.has)
		p.Process.Receive(net, m)
	}
}

func (p *anew) Suspect(net *sim.Port, who int) {
	if p.Gone.has(who) {
		return
	}
	p.Gone.add(who)
	p.Era++
	p.Process = p.fresh()
	net.Elect(sim.Nobody)
	net.InEra(p.Era, p.Gone.has)
	p.Process.Init(net)
	early := p.Early
	p.Early = nil
	for _, m := range early {
		p.Receive(net, m)
	}
}

func (p *anew) String() string {
	text := sim.State(p.Process)
	if p.Era > 0 || len(p.Early) > 0 {
		text = fmt.Sprintf("%s era:%d gone:%v early:%v", text, p.Era, p.Gone, p.Early)
	}
	return text
}
