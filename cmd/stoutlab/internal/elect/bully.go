package elect

import (
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// bully elects among processes that know each other's ids, in a network with a
// known bound D. A process that finds the coordinator gone asks all processes
// with higher ids (Election). A process that is asked replies OK and asks the
// higher ones itself. A process without an OK after 2D is the highest alive: it
// informs all lower ones (Coordinator). A process with an OK waits for
// Coordinator, at most 4D, and then begins again. A process that knows that all
// higher ones are gone informs the others at once.
//
// Bully improves on the third form of multicast, silence: an initiator asks
// only the processes that can disagree. OK is their Disagree.
//
// 2D is there and back. 4D from the first OK suffices for the highest alive to
// be asked (D), to wait without an answer (2D), and to inform (D). If the bound
// is wrong, so is a time-out, and two processes may announce themselves as
// coordinator.
type bully struct {
	Id     int
	Leader int
	Stage  stage
	Begins bool
	Gone   set // processes known to have failed
}

type stage int

const (
	idle        stage    = iota
	asking               // Election sent, no OK yet
	waiting              // OK received, no Coordinator yet
	coordinator sim.Kind = 2
)

const ok sim.Kind = 1

const (
	noOK = iota
	noCoordinator
)

func (p *bully) Init(net *sim.Port) {
	if p.Begins {
		p.begin(net)
	}
}

func (p *bully) begin(net *sim.Port) {
	if p.highest(net.N()) {
		p.announce(net)
		return
	}
	p.Stage = asking
	for id := p.Id + 1; id < net.N(); id++ {
		net.Send(id, sim.Message{Kind: election, ID: p.Id})
	}
	net.After(2*net.Bound(), noOK)
}

// highest reports whether all processes with higher ids are known to be gone.
func (p *bully) highest(n int) bool {
	for id := p.Id + 1; id < n; id++ {
		if !p.Gone.has(id) {
			return false
		}
	}
	return true
}

func (p *bully) announce(net *sim.Port) {
	p.Stage = idle
	p.become(net, p.Id)
	for id := range p.Id {
		net.Send(id, sim.Message{Kind: coordinator, ID: p.Id})
	}
}

func (p *bully) Receive(net *sim.Port, m sim.Message) {
	switch m.Kind {
	case election:
		net.Send(m.From, sim.Message{Kind: ok, ID: p.Id})
		switch {
		case p.Leader == p.Id:
			net.Send(m.From, sim.Message{Kind: coordinator, ID: p.Id})
		case p.Stage == idle:
			p.begin(net)
		}
	case ok:
		if p.Stage == asking {
			p.Stage = waiting
			net.Stop(noOK)
			net.After(4*net.Bound(), noCoordinator)
		}
	case coordinator:
		if m.ID < p.Id { // a lower process: bully it
			p.begin(net)
			return
		}
		if p.Gone.has(m.ID) { // announced before it crashed: wait for another
			return
		}
		p.Stage = idle
		net.Stop(noOK)
		net.Stop(noCoordinator)
		p.become(net, m.ID)
	}
}

func (p *bully) Timeout(net *sim.Port, timer int) {
	if timer == noOK {
		p.announce(net)
	} else {
		p.begin(net)
	}
}

// Suspect begins an election if the coordinator is gone. Unless all higher
// processes are known to be gone, Election goes to all of them, even to the
// known ones.
func (p *bully) Suspect(net *sim.Port, peer int) {
	p.Gone.add(peer)
	if p.Leader == peer {
		p.become(net, sim.NoProcess)
		if p.Stage == idle {
			p.begin(net)
		}
	}
}

func (p *bully) become(net *sim.Port, leader int) {
	p.Leader = leader
	net.Elect(leader)
}

var bullySpec = spec.Algorithm{
	Name:   "bully",
	Line:   "a process that notices asks all higher ones; without an answer it is coordinator and informs the lower ones",
	Family: spec.Election,
	Breaks: "a message later than the bound: a time-out is wrong, and two coordinators are announced",
	Kinds: []sim.KindInfo{
		{Name: "election", Carries: "id"}, {Name: "ok", Carries: "id"}, {Name: "coordinator", Carries: "id"},
	},
	New: func(c spec.Case, id int) sim.Process {
		p := &bully{Id: id, Leader: sim.NoProcess, Begins: c.Starts(id)}
		if p.Begins {
			p.Gone.add(c.N - 1) // it noticed
		}
		return p
	},
	Crowd: true, Dead: true, Decides: coordinator,
	Expect: bullyBook,
	Note:   "N−1 has failed before the run; at fixed latency an OK and the next Election travel at the same time",
}
