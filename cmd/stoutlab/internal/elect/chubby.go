package elect

import (
	"fmt"
	"math"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// chubby elects a master as Chubby's replicas do, by votes and a lease. A
// candidate asks all. Each replica has one vote; with it the replica promises
// to vote for no other candidate for the length of a lease. The candidate with
// a majority of votes is master until the lease ends, and renews it in time.
//
// Each process uses its own clock. The master counts the lease from the moment
// when it asked, shortened by the drift. A voter counts its promise from the
// moment when it voted, lengthened by the drift. If clocks stay within the
// bound, a promise outlasts the lease that depends on it. Two majorities share
// a voter, so two leases never overlap. Stout's package lease counts in this
// way.
type chubby struct {
	Id     int
	Voted  int      // the candidate
	Given  int      // the candidate's round
	Until  sim.Time // the promise: no vote for another candidate before, on its own clock
	Round  int      // of its own asking
	Asked  sim.Time // when it asked, on its own clock
	Votes  set
	Count  int
	Leader int
	c      spec.Case
	back   bool // it has restarted: its promise is forgotten
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
	case p.back: // it may have made any promise just before
		p.promise(net, sim.NoProcess)
	case p.c.Starts(p.Id):
		p.try(net)
	default: // an unknown lease may run
		net.After(p.c.Lease+p.patience(net), promiseEnds)
	}
}

// Restart keeps the round, which is on disk, so that a vote from before the
// restart does not count after it. The promise is forgotten, so the replica
// waits for as long as it could last.
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

// giveUp returns votes that did not make a majority, so that no replica waits
// for promises without a lease. A master keeps them: its lease may depend on
// the votes of the previous round.
func (p *chubby) giveUp(net *sim.Port) {
	if p.Leader == p.Id || p.Count > net.N()/2 {
		return
	}
	net.Others(sim.Message{Kind: giveBack, Round: p.Round})
	p.Round++            // no vote of that round counts any more
	if p.Voted == p.Id { // otherwise its vote belongs to another candidate by now
		p.Until = net.Now()
		net.After(p.patience(net), promiseEnds)
	}
}

// free reports whether it may vote for that process.
func (p *chubby) free(net *sim.Port, peer int) bool { return p.Voted == peer || net.Now() >= p.Until }

func (p *chubby) promise(net *sim.Port, peer int) {
	p.Voted = peer
	span := sim.Time(math.Ceil(float64(p.c.Lease) * (1 + p.c.Drift)))
	p.Until = net.Now() + span
	net.After(span+p.patience(net), promiseEnds)
}

// patience returns how long a replica waits before it tries itself. It is
// random, so that two seldom try at once.
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
			p.become(net, sim.NoProcess)
		}
	case p.Voted == m.From && m.Round < p.Given: // late or duplicate: the candidate has asked again since
	case p.free(net, m.From):
		p.promise(net, m.From)
		p.Given = m.Round
		p.become(net, m.From)
		net.Send(m.From, sim.Message{Kind: vote, Round: m.Round})
	}
}

// voted counts a vote. The vote that completes a majority starts or renews the
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
			p.become(net, sim.NoProcess)
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
	return &chubby{Id: id, Voted: sim.NoProcess, Leader: sim.NoProcess, c: c}
}

// office is the length of a run, in leases.
const office = 6

var chubbySpec = spec.Algorithm{
	Name:   "chubby",
	Line:   "a majority of votes and a lease that a majority renews: never two masters, with any delay or loss",
	Family: spec.Election,
	Breaks: "clocks beyond the bound, or a lease that is counted from the reply: two masters at once",
	Kinds:  []sim.KindInfo{{Name: "ask", Carries: "round"}, {Name: "vote", Carries: "round"}, {Name: "give_back", Carries: "round"}},
	New:    func(c spec.Case, id int) sim.Process { return newChubby(c, id) },
	Winner: spec.Anybody, Office: true, Decides: ask,
	Until:  func(c spec.Case) sim.Time { return office*c.Lease + 2*c.Bound },
	Expect: chubbyBook,
}
