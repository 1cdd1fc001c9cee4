package elect

import (
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// candidate is a process that elects through a service, as ZooKeeper's users
// do. The service has a sequential ephemeral entry of each process; the highest
// leads. A process watches only the next-higher entry, so that a crash wakes
// one process; in the herd all watch the leader's entry.
//
// A process that finds itself highest commits that in two phases: it sends
// NEW_LEADER to all, which answer ACK to at most one process in an epoch, and
// COMMIT after a majority of answers. The epoch counts the removed entries.
type candidate struct {
	Id      int
	Leader  int
	Watches int  // the owner of the watched entry
	Epoch   int  // the highest that it answered in
	Acks    set  // the processes that answered it
	Count   int  // of these
	Running bool // its two phases are under way
	Rushes  bool // it assumes that it is the highest, without asking
}

const (
	watch sim.Kind = iota
	watching
	gone
	newLeader
	ack
	commit
)

func (p *candidate) Init(net *sim.Port) {
	if p.Rushes {
		p.propose(net, 1)
		return
	}
	net.Send(net.N(), sim.Message{Kind: watch})
}

func (p *candidate) Receive(net *sim.Port, m sim.Message) {
	switch m.Kind {
	case gone:
		net.Send(net.N(), sim.Message{Kind: watch})
	case watching:
		p.Watches = m.ID
		if m.ID == p.Id {
			p.propose(net, m.Round)
		}
	case newLeader:
		if p.grants(m.Round) {
			net.Send(m.From, sim.Message{Kind: ack, Round: m.Round})
		}
	case ack:
		if p.Running && m.Round == p.Epoch {
			p.acked(net, m.From)
		}
	case commit:
		if m.Round >= p.Epoch {
			p.become(net, m.ID)
		}
	}
}

// grants reports whether this is the first NEW_LEADER of its epoch.
func (p *candidate) grants(epoch int) bool {
	if epoch <= p.Epoch {
		return false
	}
	p.Epoch, p.Running = epoch, false
	return true
}

func (p *candidate) propose(net *sim.Port, epoch int) {
	if !p.grants(epoch) { // it has given its ACK to another process
		return
	}
	p.Running, p.Acks, p.Count = true, nil, 0
	net.Others(sim.Message{Kind: newLeader, Round: epoch})
	p.acked(net, p.Id)
}

func (p *candidate) acked(net *sim.Port, from int) {
	if p.Acks.has(from) {
		return
	}
	p.Acks.add(from)
	if p.Count++; p.Count == net.N()/2+1 {
		p.become(net, p.Id)
		net.Others(sim.Message{Kind: commit, ID: p.Id, Round: p.Epoch})
	}
}

func (p *candidate) become(net *sim.Port, leader int) {
	p.Leader = leader
	net.Elect(leader)
}

func (p *candidate) Timeout(*sim.Port, int) {}

func zookeeperOf(herd bool) func(spec.Case, int) sim.Process {
	return func(c spec.Case, id int) sim.Process {
		if id < c.N {
			return &candidate{Id: id, Leader: sim.NoProcess, Watches: sim.NoProcess, Rushes: c.Starts(id)}
		}
		s := &service{Epoch: 1, Herd: herd, Watches: make([]int, c.N)}
		for i := range s.Watches {
			s.Watches[i] = sim.NoProcess
		}
		return s
	}
}

var zookeeperSpec = spec.Algorithm{
	Name:   "zookeeper",
	Line:   "sequential entries in a service; each watches the next-higher, a crash wakes one",
	Family: spec.Election,
	Breaks: "two processes that both assume to be the highest may share the ACKs, or a majority crashes: no process gets a majority",
	Kinds: []sim.KindInfo{
		{Name: "watch"}, {Name: "watching", Carries: "id round"}, {Name: "event", Carries: "id"},
		{Name: "new_leader", Carries: "round"}, {Name: "ack", Carries: "round"}, {Name: "commit", Carries: "id round"},
	},
	New: zookeeperOf(false), Extra: 1, Session: true, NoInitiator: true, Decides: commit,
	Expect: zookeeperBook,
}

var herdSpec = func() spec.Algorithm {
	s := zookeeperSpec
	s.Name = "zookeeper-herd"
	s.Line = "as zookeeper, but all watch the leader: its crash wakes N−1"
	s.New = zookeeperOf(true)
	return s
}()
