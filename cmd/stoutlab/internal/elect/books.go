package elect

import (
	"fmt"
	"math"
	"slices"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// The books' costs of runs, if they take more than a line.

const courseUIUC = "Gupta, Cloud Computing Concepts, leader election; Coulouris et al., 15.3"

// ringOne is the cost of one initiator: its message reaches the best process
// after 0 to N−1 hops; then two whole rounds follow.
func ringOne(c spec.Case) *spec.Expected {
	r := spec.Range{Min: 2 * c.N, Max: 3*c.N - 1}
	return &spec.Expected{Messages: r, Turnaround: r, Formula: "2N … 3N−1", Source: courseUIUC}
}

// ringSeveral is the cost of several initiators: the run of the highest is
// complete, any other ends at the next higher initiator at the latest.
func ringSeveral(c spec.Case) *spec.Expected {
	top := c.Top()
	whole := 2*c.N + c.Distance(top, c.N-1)
	sum := whole
	for _, id := range c.Initiators {
		if id != top {
			sum += toHigher(c, id)
		}
	}
	r := spec.Range{Min: whole + len(c.Initiators) - 1, Max: sum}
	return &spec.Expected{
		Messages: r, Turnaround: spec.Range{Min: whole, Max: sum},
		Formula: "2N + hops to the best, and of each lower run the hops to a higher initiator", Source: courseUIUC,
	}
}

// toHigher returns the number of hops from an initiator to the next higher one.
func toHigher(c spec.Case, id int) int {
	at := slices.Index(c.Ring, id)
	for hops := 1; ; hops++ {
		if other := c.Ring[(at+hops)%c.N]; other > id && c.Starts(other) {
			return hops
		}
	}
}

// hsBook holds for any arrangement.
func hsBook(c spec.Case) *spec.Expected {
	n := c.N
	return &spec.Expected{
		Messages:   spec.Range{Min: 3 * n, Max: hsBound(n)},
		Turnaround: spec.Range{Min: 2 * n, Max: hsTime(n)},
		Formula:    "below 8n(log n + 2) + 5n, announcement included",
		Source:     "Hirschberg, Sinclair 1980; Lynch, Distributed Algorithms, 3.4",
	}
}

// hsTime bounds the turnaround: there and back in each phase but the last, n
// hops in the last one, and n for the announcement.
func hsTime(n int) int {
	t := 2 * n
	for k := 0; 1<<k < n; k++ {
		t += 2 << k
	}
	return t
}

// hsBound is 8n(log n + 2) + 5n, for any arrangement: at most 8n in a phase.
func hsBound(n int) int { return int(8*float64(n)*(math.Log2(float64(n))+2)) + 5*n }

// answersBook counts the forms of multicast in which all answer: each election
// costs a question to and an answer from each other process. A process above
// the lowest initiator starts an election unless it learns the leader first.
func answersBook(c spec.Case) *spec.Expected {
	begin := len(c.Initiators)
	if !c.Starts(c.N - 1) {
		begin++
	}
	count := func(elections int) int { return (2*elections + 1) * (c.N - 1) }
	e := &spec.Expected{
		Messages:   spec.Range{Min: count(begin), Max: count(c.N - slices.Min(c.Initiators))},
		Turnaround: spec.Range{Min: 3, Max: 4},
		Formula:    "E elections: E(N−1) Election, E(N−1) Agree or Disagree, N−1 Coordinator; E up to N − lowest initiator",
		Source:     "the lab's own count",
	}
	if c.N == 1 {
		e.Turnaround = spec.Exactly(0)
	}
	return e
}

// silenceBook counts the form in which only higher ids answer. All processes
// above the lowest initiator start an election, because its question takes D
// and the earliest leader 2D.
func silenceBook(c spec.Case) *spec.Expected {
	elections := c.N - slices.Min(c.Initiators)
	e := &spec.Expected{
		Messages:   spec.Exactly((elections+1)*(c.N-1) + elections*(elections-1)/2),
		Turnaround: spec.Range{Min: 2, Max: 3},
		Formula:    "E = N − lowest initiator: E(N−1) Election, E(E−1)/2 Disagree, N−1 Coordinator",
		Source:     "the lab's own count",
	}
	if c.N == 1 {
		e.Turnaround = spec.Exactly(1)
	}
	return e
}

// bullyBook is exact if one process detects the failure.
func bullyBook(c spec.Case) *spec.Expected {
	n := c.N
	e := &spec.Expected{
		Messages:   spec.Range{Min: n - 2, Max: n*(n-1)/2 + (n-1)*(n-2)/2 + n - 2},
		Turnaround: spec.Range{Min: 1, Max: 5},
		Formula:    "N−2 … N(N−1)/2 Election, (N−1)(N−2)/2 OK, N−2 Coordinator",
		Source:     "Garcia-Molina 1982; Gupta, Cloud Computing Concepts; Coulouris et al., 15.3.2",
	}
	if len(c.Initiators) > 1 && c.Starts(n-2) {
		return nil // N−2 announces itself at once, and again to each later asker: no book counts that
	}
	if n == 2 { // the other one is the failed coordinator
		e.Messages, e.Turnaround = spec.Exactly(0), spec.Exactly(0)
	} else if len(c.Initiators) == 1 {
		// Initiator i has N−1−i processes above it. All of them except the
		// failed one answer and then ask.
		above := n - 1 - c.Initiators[0]
		e.Messages = spec.Exactly(above*(above+1)/2 + above*(above-1)/2 + n - 2)
		if above == 1 {
			e.Messages = spec.Exactly(n - 2)
		}
	}
	return e
}

// zookeeperBook is the lab's own count of the recipe's steps.
func zookeeperBook(c spec.Case) *spec.Expected {
	if len(c.Initiators) > 0 {
		return nil // they do not wait for the service: no book counts that
	}
	e := &spec.Expected{
		Messages: spec.Exactly(5*c.N - 3), Turnaround: spec.Exactly(5),
		Formula: "N watch + N watching + 3(N−1) in two phases",
		Source:  "Gupta, Cloud Computing Concepts; ZooKeeper recipes; the lab's own count",
	}
	if c.N == 1 {
		e.Turnaround = spec.Exactly(2)
	}
	return e
}

// chubbyBook counts the rounds of votes of a run, which lasts several leases.
func chubbyBook(c spec.Case) *spec.Expected {
	asked := 1 + 4*office // once for the election, then in every quarter of a lease
	most := 2 * (c.N - 1) * asked
	if len(c.Initiators) > 1 { // after a failed try a process asks and gives votes back, a few times
		most += 5 * 3 * (c.N - 1) * len(c.Initiators)
	}
	return &spec.Expected{
		Messages:   spec.Range{Min: 2 * (c.N - 1), Max: most},
		Turnaround: spec.Range{Min: 2, Max: 3 * asked},
		Formula:    fmt.Sprintf("2(N−1) to elect, 2(N−1) for each of %d renewals", 4*office),
		Source:     "Burrows 2006; Gupta, Cloud Computing Concepts; Stout's package lease",
	}
}
