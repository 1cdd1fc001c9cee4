package mutex

import (
	"slices"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// maekawa asks a voting set instead of all. Any two sets meet, and a member
// votes for one at a time, so two are never inside. Who asks while the vote is
// out waits at the member. Votes are given in the order of asking, so three who
// ask at the same time can each wait for the next: this version deadlocks.
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
	Line:   "asks a voting set of about √N, any two of which meet; deadlocks",
	Family: spec.Mutex,
	Breaks: "three who ask at the same time, each with a vote that the next one needs: deadlock",
	Kinds:  []sim.KindInfo{{Name: "request"}, {Name: "vote"}, {Name: "release"}},
	New:    using(func(c spec.Case, id int) Lock { return &maekawa{Set: setOf(c, id)} }),
	Crowd:  true, Sets: setsOf, Default: 6, Delay: sixDelays, Alone: true,
	Expect: maekawaExpect,
}

// setsOf are the voting sets of a case. The six of the book have their own.
func setsOf(c spec.Case) [][]int {
	if c.N == len(sixSets) {
		return sixSets
	}
	return votingSets(c.N)
}

// setOf is the voting set of one process.
func setOf(c spec.Case, id int) []int {
	if c.N == len(sixSets) {
		return sixSets[id]
	}
	return votingSet(c.N, id)
}

// sixDelays is the schedule of the book's deadlock: 0, 1 and 2 ask at once, and
// process 1 votes for itself, 2 for 0, and 5 for 2. For that 2 hears itself
// later than 0, and 5 hears 1 later than 2.
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
			inSet-- // what it sends to itself is counted apart
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
	// Where the vote that is waited for is that of who leaves, 1 is enough.
	return e.Delays(spec.Exactly(2), spec.Range{Min: 1, Max: 2})
}
