// Package spec says what an algorithm of the lab is: its messages, its
// processes, and what the books say that it costs.
package spec

import (
	"slices"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
)

// Family is the problem that an algorithm solves.
type Family string

// The families.
const (
	Election Family = "election"
	Mutex    Family = "mutual exclusion"
)

// Algorithm is one algorithm.
type Algorithm struct {
	Name   string
	Line   string // what it is, in a line
	Breaks string // what breaks it, in a line
	Note   string // what an answer adds in words
	Family Family

	Kinds   []sim.KindInfo
	New     func(c Case, id int) sim.Process
	Expect  func(c Case) *Expected // of a run without failures; nil where no book counts
	Crowd   bool                   // all may talk to all at once
	Default int                    // the number of processes by default; 0: 5

	// The network.
	Ring    bool                           // the processes form a ring
	Best    func(n int, begin []int) []int // the ring that costs least if those begin
	Worst   func(n int, begin []int) []int // and most, or nearly
	Extra   int                            // nodes that serve, behind the processes
	Session bool                           // one of these watches over the processes: its detector is perfect by default

	// Election.
	All        bool                  // by default all processes begin, not only who detects
	Nobody     bool                  // by default nobody begins by itself
	Candidates bool                  // only who begins can be elected
	Anew       bool                  // told of a crash, all begin anew
	Phases     bool                  // it goes by phases, and tallies the winners of each
	Dead       bool                  // the highest process is the failed coordinator from the start
	Winner     Winner                // who has to be elected
	Decides    sim.Kind              // the kind of message that announces the leader
	Office     bool                  // leaders are in office for spans, which must not overlap
	Until      func(c Case) sim.Time // when a run is over that has no end of its own

	// Mutual exclusion.
	Server  bool                             // process 0 serves
	Forever bool                             // messages go on: the run is over when all have entered
	Alone   bool                             // by default only process 0 enters
	Sets    func(c Case) [][]int             // voting sets
	Delay   func(c Case) map[[2]int]sim.Time // links that are slow, where the case is one of a book
}

// ChoosesInitiators reports whether some processes may begin and others not.
func (a Algorithm) ChoosesInitiators() bool { return !a.All || a.Candidates }

// Winner is who has to be elected.
type Winner uint8

// The winners: the highest id alive, the lowest, or anybody as long as it is
// one.
const (
	Highest Winner = iota
	Lowest
	Anybody
)

// Case is one run's parameters as an algorithm sees them.
type Case struct {
	N          int
	Ring       []int
	Initiators []int
	Entries    []int // of each process, how often it enters
	Bound      sim.Time
	Seed       uint64
	Faulty     bool // something breaks in this run: the books' counts do not apply
	Book       bool // the case of a book, with its own schedule

	Lease     sim.Time // chubby: the length of a lease
	Drift     float64  // chubby: the bound on clocks that the processes count on
	FromReply bool     // chubby: the lease is counted from the reply, which is wrong
}

// Starts reports whether a process begins by itself.
func (c Case) Starts(id int) bool { return slices.Contains(c.Initiators, id) }

// Top is the highest of the initiators.
func (c Case) Top() int { return slices.Max(c.Initiators) }

// Distance is the number of hops around the ring from one process to another.
func (c Case) Distance(from, to int) int {
	d := slices.Index(c.Ring, to) - slices.Index(c.Ring, from)
	return (d + c.N) % c.N
}

// Range is what a book allows.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Exactly is a range of one value.
func Exactly(v int) Range { return Range{v, v} }

// Holds reports whether the range holds v.
func (r Range) Holds(v int) bool { return r.Min <= v && v <= r.Max }

// Delays adds the two delays of mutual exclusion to what is expected.
func (e *Expected) Delays(client, synchronization Range) *Expected {
	e.ClientDelay, e.SynchronizationDelay = &client, &synchronization
	return e
}

// Expected is what the books say of a run without failures.
type Expected struct {
	Messages   Range `json:"messages"`
	Turnaround Range `json:"turnaround"`
	// Of mutual exclusion, in message times.
	ClientDelay          *Range `json:"client_delay,omitempty"`
	SynchronizationDelay *Range `json:"synchronization_delay,omitempty"`
	Formula              string `json:"formula"`
	Source               string `json:"source"`
}

// Ascending is the ring 0, 1, … n−1 and Descending its reverse, whoever begins.
func Ascending(n int, _ []int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	return ids
}

// Descending is the ring n−1, … 1, 0.
func Descending(n int, _ []int) []int {
	ids := Ascending(n, nil)
	slices.Reverse(ids)
	return ids
}
