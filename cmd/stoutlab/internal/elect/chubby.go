package elect

import (
	"fmt"
	"math"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// chubby elects a master as Chubby's replicas do, by votes and a lease. A
// candidate asks all. Each replica has one vote; with it the replica promises
// to vote for no other for the length of a lease. The candidate that a majority
// voted for is master until the lease ends, and renews it in time.
//
// Each process counts on a clock of its own. The master counts the lease from
// the moment at which it asked, and short by the drift; a voter counts its
// promise from when it voted, and long by the drift. Where clocks keep to the
// bound, a promise outlasts the lease that rests on it. Two majorities share a
// voter, so two leases never overlap. Stout's package lease counts in this way.
type chubby struct {
	Id     int
	Voted  int      // for whom
	Given  int      // in which of its rounds
	Until  sim.Time // the promise: no vote for anybody else before, on its own clock
	Round  int      // of its own asking
	Asked  sim.Time // when, on its own clock
	Votes  set
	Count  int
	Leader int
	c      spec.Case
	back   bool // it has been restarted: what it promised is forgotten
}

const (
	ask sim.Kind = iota
	vote
	giveBack
)

const (
	promiseEnds = iota // then it may try itself
	leaseEnds
	renew
	noMajority
)

func (p *chubby) Init(net *sim.Port) {
	switch {
	case p.back: // it may have promised anything a moment ago
		p.promise(net, sim.Nobody)
	case p.c.Starts(p.Id):
		p.try(net)
	default: // a lease may run that it does not know of
		net.After(p.c.Lease+p.patience(net), promiseEnds)
	}
}

// Restart keeps the round, which is on disk: a vote of an earlier life must not
// count in this one. What was promised is forgotten, and so waited for.
func (p *chubby) Restart() {
	round := p.Round
	*p = *newChubby(p.c, p.Id)
	p.Round, p.back = round, true
}

// try asks all for their votes, its own first.
func (p *chubby) try(net *sim.Port) {
	if !p.free(net, p.Id) {
		net.After(p.patience(net), promiseEnds)
		return
	}
	p.Round++
	p.Asked = net.Now()
	p.Votes, p.Count = nil, 0
	p.promise(net, p.Id)
	net.Others(sim.Message{Kind: ask, Round: p.Round})
	net.After(max(2*net.Bound(), p.c.Lease/2), noMajority)
	p.voted(net, p.Id)
}

// giveUp gives the votes back that did not make a majority, so that nobody
// waits for promises that carry no lease. A master keeps them: its lease may
// rest on those of the round before.
func (p *chubby) giveUp(net *sim.Port) {
	if p.Leader == p.Id || p.Count > net.N()/2 {
		return
	}
	net.Others(sim.Message{Kind: giveBack, Round: p.Round})
	p.Round++            // no vote of that round counts any more
	if p.Voted == p.Id { // else its vote is somebody else's by now
		p.Until = net.Now()
		net.After(p.patience(net), promiseEnds)
	}
}

// free reports whether it may vote for that process.
func (p *chubby) free(net *sim.Port, who int) bool { return p.Voted == who || net.Now() >= p.Until }

func (p *chubby) promise(net *sim.Port, who int) {
	p.Voted = who
	span := sim.Time(math.Ceil(float64(p.c.Lease) * (1 + p.c.Drift)))
	p.Until = net.Now() + span
	net.After(span+p.patience(net), promiseEnds)
}

// patience is how long a replica waits before it tries itself: by chance, so
// that seldom two try at once.
func (p *chubby) patience(net *sim.Port) sim.Time { return 1 + net.Rand().Int64N(p.c.Lease/2+1) }

func (p *chubby) Receive(net *sim.Port, m sim.Message) {
	switch {
	case m.Kind == vote:
		if m.Round == p.Round {
			p.voted(net, m.From)
		}
	case m.Kind == giveBack:
		if p.Voted == m.From && p.Given == m.Round {
			p.Until = net.Now()
			p.become(net, sim.Nobody)
		}
	case p.Voted == m.From && m.Round < p.Given: // late, or twice: it has asked again since
	case p.free(net, m.From):
		p.promise(net, m.From)
		p.Given = m.Round
		p.become(net, m.From)
		net.Send(m.From, sim.Message{Kind: vote, Round: m.Round})
	}
}

// voted counts a vote. The one that makes a majority makes, or renews, the
// lease.
func (p *chubby) voted(net *sim.Port, from int) {
	if p.Votes.has(from) {
		return
	}
	p.Votes.add(from)
	if p.Count++; p.Count != net.N()/2+1 {
		return
	}
	counted := p.Asked
	if p.c.FromReply {
		counted = net.Now()
	}
	ends := counted + sim.Time(math.Floor(float64(p.c.Lease)*(1-p.c.Drift)))
	if ends <= net.Now() {
		return
	}
	p.become(net, p.Id)
	net.Lead(ends)
	net.After(ends-net.Now(), leaseEnds)
	net.After(max(1, p.Asked+p.c.Lease/4-net.Now()), renew)
}

func (p *chubby) Timeout(net *sim.Port, timer int) {
	switch timer {
	case leaseEnds:
		if p.Leader == p.Id {
			p.become(net, sim.Nobody)
		}
	case noMajority:
		p.giveUp(net)
	case renew, promiseEnds:
		p.try(net)
	}
}

func (p *chubby) become(net *sim.Port, leader int) {
	p.Leader = leader
	net.Elect(leader)
}

func (p *chubby) String() string {
	return fmt.Sprintf("{Voted:%d Given:%d Until:%d Round:%d Asked:%d Votes:%d Leader:%d}",
		p.Voted, p.Given, p.Until, p.Round, p.Asked, p.Count, p.Leader)
}

func newChubby(c spec.Case, id int) *chubby {
	return &chubby{Id: id, Voted: sim.Nobody, Leader: sim.Nobody, c: c}
}

// office is for how many leases a run goes on.
const office = 6

var chubbySpec = spec.Algorithm{
	Name:   "chubby",
	Line:   "a majority of votes and a lease that a majority renews: never two masters, whatever is late or lost",
	Family: spec.Election,
	Breaks: "clocks beyond the bound, or a lease that is counted from the reply: two masters at once",
	Kinds:  []sim.KindInfo{{Name: "ask", Carries: "round"}, {Name: "vote", Carries: "round"}, {Name: "give_back", Carries: "round"}},
	New:    func(c spec.Case, id int) sim.Process { return newChubby(c, id) },
	Winner: spec.Anybody, Office: true, Decides: ask,
	Until:  func(c spec.Case) sim.Time { return office*c.Lease + 2*c.Bound },
	Expect: chubbyBook,
}
