package elect

import (
	"fmt"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// anew makes an algorithm tolerate crashes. A process that learns of a crash
// drops its state and restarts the election, in a new era: one for each crash
// that it has learned of. Messages from an earlier era are dropped. Messages
// from a later era wait until this process has learned of as many crashes.
// Processes reported as crashed are left out of the ring.
//
// A perfect detector reports every crash to all. So all processes reach the
// same last era, in which no process crashes.
type anew struct {
	sim.Process
	fresh func() sim.Process
	Era   int
	Early []sim.Message // of later eras
	Gone  set
}

// BeginsAnew returns a process of the algorithm that restarts the election, as
// all others do, whenever its detector reports a crash.
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

func (p *anew) Suspect(net *sim.Port, peer int) {
	if p.Gone.has(peer) {
		return
	}
	p.Gone.add(peer)
	p.Era++
	p.Process = p.fresh()
	net.Elect(sim.NoProcess)
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
