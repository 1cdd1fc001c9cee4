package mutex

import (
	"fmt"
	"slices"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// deadlockFree is maekawa with revocable votes. Requests have Lamport times,
// and earlier ones come first. A member that has voted asks for its vote back
// when an earlier request arrives (inquire), and informs each process that
// waits behind an earlier request (failed). A process that is asked, and knows
// that it fails somewhere, returns all its votes to all of its set
// (relinquish): its request stays, and the members vote again.
//
// Relinquish crosses votes that are under way. So a process begins a new
// attempt each time that it returns its votes, and a vote counts only for the
// attempt that it names.
type deadlockFree struct {
	Id      int
	Set     []int
	Clock   int
	Wants   bool
	Attempt int
	Time    int   // of its request
	Votes   []int // members that vote for it
	Failed  []int // members where it waits behind an earlier request
	Asked   []int // members that want their vote back

	// As a member:
	Vote    candidate // the request that it votes for
	Voted   bool
	Inquire bool // it has asked for its vote back
	Queue   []candidate
}

// candidate is a request in a member's memory.
type candidate struct {
	Time, Id, Attempt int
	Notified          bool // that it fails
}

func (a candidate) compare(b candidate) int {
	if a.Time != b.Time {
		return a.Time - b.Time
	}
	return a.Id - b.Id
}

const (
	inquire sim.Kind = iota + 3
	failed
	relinquish
)

func (p *deadlockFree) Init(*sim.Port) {}

func (p *deadlockFree) Request(net *sim.Port) {
	p.Clock++
	p.Wants, p.Time, p.Attempt = true, p.Clock, p.Attempt+1
	toAll(net, p.Set, sim.Message{Kind: request, ID: p.Id, Round: p.Time, Hops: p.Attempt})
}

func (p *deadlockFree) Release(net *sim.Port) {
	p.Votes, p.Failed, p.Asked = nil, nil, nil
	toAll(net, p.Set, sim.Message{Kind: release, ID: p.Id})
}

func (p *deadlockFree) Receive(net *sim.Port, m sim.Message) {
	p.Clock = max(p.Clock, m.Round)
	switch m.Kind {
	case request:
		p.Clock++
		p.Queue = append(p.Queue, candidate{Time: m.Round, Id: m.ID, Attempt: m.Hops})
		p.serve(net)
	case release:
		p.Voted = false
		p.serve(net)
	case relinquish:
		p.requeue(m)
		p.serve(net)
	default:
		if p.Wants {
			p.answered(net, m)
		}
	}
}

// answered handles a member's answer to a waiting process.
func (p *deadlockFree) answered(net *sim.Port, m sim.Message) {
	if m.Hops != p.Attempt {
		return
	}
	switch m.Kind {
	case maekawaVote:
		p.Votes = append(p.Votes, m.From)
		p.Failed = slices.DeleteFunc(p.Failed, func(id int) bool { return id == m.From })
	case failed:
		p.Failed = append(p.Failed, m.From)
	case inquire:
		p.Asked = append(p.Asked, m.From)
	}
	switch {
	case len(p.Votes) == len(p.Set):
		p.Wants = false
		enter(net)
	case len(p.Asked) > 0 && len(p.Failed) > 0:
		p.Attempt++
		p.Votes, p.Failed, p.Asked = nil, nil, nil
		toAll(net, p.Set, sim.Message{Kind: relinquish, ID: p.Id, Hops: p.Attempt})
	}
}

// requeue returns a request to the queue after its votes were returned.
func (p *deadlockFree) requeue(m sim.Message) {
	if p.Voted && p.Vote.Id == m.ID {
		p.Voted = false
		p.Queue = append(p.Queue, p.Vote)
	}
	for i := range p.Queue {
		if p.Queue[i].Id == m.ID {
			p.Queue[i].Attempt, p.Queue[i].Notified = m.Hops, false
		}
	}
}

// serve votes for the earliest request if the vote is free, and informs waiting
// processes that they fail.
func (p *deadlockFree) serve(net *sim.Port) {
	slices.SortFunc(p.Queue, candidate.compare)
	if !p.Voted && len(p.Queue) > 0 {
		p.Vote, p.Voted, p.Inquire = p.Queue[0], true, false
		p.Queue = p.Queue[1:]
		p.say(net, maekawaVote, p.Vote)
	}
	for i := range p.Queue {
		c := &p.Queue[i]
		if first := i == 0 && c.compare(p.Vote) < 0; !first && !c.Notified {
			c.Notified = true
			p.say(net, failed, *c)
		} else if first && !p.Inquire {
			p.Inquire = true
			p.say(net, inquire, p.Vote)
		}
	}
}

func (p *deadlockFree) say(net *sim.Port, kind sim.Kind, to candidate) {
	net.Send(to.Id, sim.Message{Kind: kind, Hops: to.Attempt})
}

func (p *deadlockFree) Timeout(*sim.Port, int) {}

func (p *deadlockFree) String() string {
	type plain deadlockFree // without this method
	return fmt.Sprintf("%+v", plain(*p))
}

var deadlockFreeSpec = spec.Algorithm{
	Name:   "maekawa-deadlock-free",
	Line:   "maekawa with inquire, failed and relinquish: an earlier request gets votes back",
	Family: spec.Mutex,
	Breaks: "the crash of a member: processes with it in their set can't enter any more",
	Kinds: []sim.KindInfo{
		{Name: "request", Carries: "id round"}, {Name: "vote", Carries: "hops"}, {Name: "release", Carries: "id"},
		{Name: "inquire", Carries: "hops"}, {Name: "failed", Carries: "hops"}, {Name: "relinquish", Carries: "id hops"},
	},
	New: using(func(c spec.Case, id int) Lock {
		return &deadlockFree{Id: id, Set: setOf(c, id)}
	}),
	Crowd: true, Sets: setsOf, Default: 6, Delay: sixDelays,
	Expect: func(c spec.Case) *spec.Expected {
		e := maekawaExpect(c)
		if c.N > 1 && entries(c) > 1 {
			// Every request may be failed, inquired and relinquished each time
			// that an earlier one reaches one of its members.
			e.Messages.Max *= 3 + entries(c)
			e.Turnaround.Max *= 3
			e.SynchronizationDelay.Max = 6 // votes may have to be returned first
		}
		e.Formula = "3K an entry alone, up to 6K and more where requests meet"
		e.Source = "Maekawa 1985; Sanders 1987; " + books
		return e
	},
}
