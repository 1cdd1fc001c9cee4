package elect

import (
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// multicast is election by asking all processes, in the three forms of the
// lecture notes. An initiator multicasts Election with its id. A process with a
// higher id answers Disagree and starts its own election, unless it has one
// running or knows the leader. An initiator that gets a Disagree gives up and
// waits for the leader. An elected process multicasts Coordinator.
//
// The forms differ in the condition that elects an initiator:
//
//   - agreement: processes with lower ids answer Agree; Agree from all elects.
//     One silent process blocks the election.
//   - timeout: as agreement, but a process that has not answered after 2D counts
//     as failed.
//   - silence: lower ids do not answer; no Disagree within 2D elects.
//
// D is the network's bound and 2D is there and back. Only the highest id of all
// can get Agree from all, so agreement never elects two. The other forms can,
// if a Disagree is lost or later than 2D.
type multicast struct {
	Id     int
	Leader int
	Form   form
	Stage  stage
	Agreed set
	Begins bool
}

type form int

const (
	agreement form = iota // (a) in the notes
	timeout               // (b)
	silence               // (c)
)

const (
	disagree sim.Kind = 1
	agree    sim.Kind = 3
)

const noAnswer = 0

func (p *multicast) Init(net *sim.Port) {
	if p.Begins {
		p.begin(net)
	}
}

func (p *multicast) begin(net *sim.Port) {
	p.Stage = asking
	net.Others(sim.Message{Kind: election, ID: p.Id})
	if p.Form != agreement {
		net.After(2*net.Bound(), noAnswer)
	}
	p.count(net)
}

// count elects the process if all others agree; a single process is elected at
// once.
func (p *multicast) count(net *sim.Port) {
	if p.Form == silence {
		return
	}
	for id := range net.N() {
		if id != p.Id && !p.Agreed.has(id) {
			return
		}
	}
	p.announce(net)
}

func (p *multicast) announce(net *sim.Port) {
	p.become(net, p.Id)
	net.Others(sim.Message{Kind: coordinator, ID: p.Id})
}

func (p *multicast) Receive(net *sim.Port, m sim.Message) {
	switch m.Kind {
	case election:
		p.answer(net, m)
	case agree:
		if p.Stage == asking {
			p.Agreed.add(m.From)
			p.count(net)
		}
	case disagree:
		if p.Stage == asking {
			p.Stage = waiting
			net.Stop(noAnswer)
		}
	case coordinator:
		p.become(net, m.ID)
	}
}

func (p *multicast) answer(net *sim.Port, m sim.Message) {
	switch {
	case m.ID < p.Id:
		net.Send(m.From, sim.Message{Kind: disagree, ID: p.Id})
		if p.Stage == idle && p.Leader == sim.NoProcess {
			p.begin(net)
		}
	case p.Form != silence:
		net.Send(m.From, sim.Message{Kind: agree, ID: p.Id})
	}
}

func (p *multicast) Timeout(net *sim.Port, _ int) { p.announce(net) }

// become ends the process's own election, if one runs.
func (p *multicast) become(net *sim.Port, leader int) {
	p.Stage = idle
	net.Stop(noAnswer)
	p.Leader = leader
	net.Elect(leader)
}

func multicastOf(f form) func(spec.Case, int) sim.Process {
	return func(c spec.Case, id int) sim.Process {
		return &multicast{Id: id, Leader: sim.NoProcess, Form: f, Begins: c.Starts(id)}
	}
}

// multicastKinds are the message kinds of all forms. silence uses the first
// three.
var multicastKinds = []sim.KindInfo{
	{Name: "election", Carries: "id"}, {Name: "disagree", Carries: "id"},
	{Name: "coordinator", Carries: "id"}, {Name: "agree", Carries: "id"},
}

var multicastSpec = spec.Algorithm{
	Name:   "multicast",
	Line:   "an initiator asks all; agree from all elects it, one disagree ends its election",
	Family: spec.Election,
	Breaks: "one process that does not answer: the election never ends",
	Kinds:  multicastKinds,
	New:    multicastOf(agreement),
	Crowd:  true, Decides: coordinator,
	Expect: answersBook,
}

var multicastTimeoutSpec = spec.Algorithm{
	Name:   "multicast-timeout",
	Line:   "as multicast, but a process that does not answer in time counts as failed",
	Family: spec.Election,
	Breaks: "a disagree later than the bound, or lost: two leaders",
	Kinds:  multicastKinds,
	New:    multicastOf(timeout),
	Crowd:  true, Decides: coordinator,
	Expect: answersBook,
}

var multicastDisagreeSpec = spec.Algorithm{
	Name:   "multicast-disagree",
	Line:   "as multicast-timeout, but without agree: no disagree in time elects",
	Family: spec.Election,
	Breaks: multicastTimeoutSpec.Breaks,
	Kinds:  multicastKinds[:agree],
	New:    multicastOf(silence),
	Crowd:  true, Decides: coordinator,
	Expect: silenceBook,
}
