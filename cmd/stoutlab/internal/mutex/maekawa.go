package mutex

import (
	"slices"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// maekawa asks a voting set instead of all. Any two sets meet, and a member
// votes for one process at a time, so two processes are never inside. Requests
// wait at a member while its vote is out. Votes are given in the order of
// requests, so three concurrent requests can each wait for the next: this
// version deadlocks.
type maekawa struct {
	Set   []int
	Votes int
	Voted bool // its own vote is out
	Queue []int
}

const maekawaVote sim.Kind = 1

func (p *maekawa) Init(*sim.Port) {}

func (p *maekawa) Request(net *sim.Port) {
	p.Votes = 0
	toAll(net, p.Set, sim.Message{Kind: request})
}

func (p *maekawa) Release(net *sim.Port) { toAll(net, p.Set, sim.Message{Kind: release}) }

func (p *maekawa) Receive(net *sim.Port, m sim.Message) {
	switch m.Kind {
	case request:
		p.Queue = append(p.Queue, m.From)
		p.vote(net)
	case release:
		p.Voted = false
		p.vote(net)
	case maekawaVote:
		if p.Votes++; p.Votes == len(p.Set) {
			enter(net)
		}
	}
}

func (p *maekawa) vote(net *sim.Port) {
	if p.Voted || len(p.Queue) == 0 {
		return
	}
	p.Voted = true
	first := p.Queue[0]
	p.Queue = p.Queue[1:]
	net.Send(first, sim.Message{Kind: maekawaVote})
}

func (p *maekawa) Timeout(*sim.Port, int) {}

func toAll(net *sim.Port, set []int, m sim.Message) {
	for _, to := range set {
		net.Send(to, m)
	}
}

var maekawaSpec = spec.Algorithm{
	Name:   "maekawa",
	Line:   "asks a voting set of about √N; any two sets meet; deadlocks",
	Family: spec.Mutex,
	Breaks: "three concurrent requests, each with a vote that the next one needs: deadlock",
	Kinds:  []sim.KindInfo{{Name: "request"}, {Name: "vote"}, {Name: "release"}},
	New:    using(func(c spec.Case, id int) Lock { return &maekawa{Set: setOf(c, id)} }),
	Crowd:  true, Sets: setsOf, Default: 6, Delay: sixDelays, Alone: true,
	Expect: maekawaExpect,
}

// setsOf returns the voting sets of a case. The book's case of six has special
// sets.
func setsOf(c spec.Case) [][]int {
	if c.N == len(sixSets) {
		return sixSets
	}
	return votingSets(c.N)
}

func setOf(c spec.Case, id int) []int {
	if c.N == len(sixSets) {
		return sixSets[id]
	}
	return votingSet(c.N, id)
}

// sixDelays is the schedule of the book's deadlock: 0, 1 and 2 ask at the same
// time, and process 1 votes for itself, 2 for 0, and 5 for 2. For that, 2's
// request reaches itself later than 0's, and 1's request reaches 5 later than
// 2's.
func sixDelays(c spec.Case) map[[2]int]sim.Time {
	if !c.Book {
		return nil
	}
	return map[[2]int]sim.Time{{2, 2}: 2, {1, 5}: 2}
}

func maekawaExpect(c spec.Case) *spec.Expected {
	sets, sum, largest := setsOf(c), 0, 0
	for id, times := range c.Entries {
		inSet := len(sets[id])
		if slices.Contains(sets[id], id) {
			inSet-- // messages to itself are counted separately
		}
		sum += times * 3 * inSet
		largest = max(largest, len(sets[id]))
	}
	e := &spec.Expected{
		Messages: spec.Exactly(sum), Turnaround: spec.Range{Min: 0, Max: 6 * entries(c)},
		Formula: "3K an entry with sets of K ≈ √N, 3 of them to oneself; client delay 2, synchronization delay 2",
		Source:  "Maekawa 1985; " + books,
	}
	if c.N == 1 {
		return e
	}
	// If the missing vote is the leaving process's own, 1 is enough.
	return e.Delays(spec.Exactly(2), spec.Range{Min: 1, Max: 2})
}
