// Package spec describes an algorithm of the lab: its messages, its processes,
// and its costs according to the books.
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
	Line   string // description, in one line
	Breaks string // what breaks it, in one line
	Note   string // remark for the result
	Family Family

	Kinds   []sim.KindInfo
	New     func(c Case, id int) sim.Process
	Expect  func(c Case) *Expected // of a run without failures; nil if no book counts
	Crowd   bool                   // messages between all processes may be under way
	Default int                    // the default number of processes; 0: 5

	// The network.
	Ring    bool                           // the processes form a ring
	Best    func(n int, begin []int) []int // the ring that costs least with these initiators
	Worst   func(n int, begin []int) []int // and most, or nearly
	Extra   int                            // nodes that serve, behind the processes
	Session bool                           // one of these watches the processes: its detector is perfect by default

	// Election.
	All         bool                  // by default all processes begin, not only the one that detects the failure
	NoInitiator bool                  // by default no process begins by itself
	Candidates  bool                  // only initiators can be elected
	Anew        bool                  // after a crash is reported, all begin again
	Phases      bool                  // it has phases, and tallies the winners of each
	Dead        bool                  // the highest process is the failed coordinator from the start
	Winner      Winner                // the process that must be elected
	Decides     sim.Kind              // the kind of message that announces the leader
	Office      bool                  // leaders are in office for spans, which must not overlap
	Until       func(c Case) sim.Time // the end of a run that does not end by itself

	// Mutual exclusion.
	Server  bool                             // process 0 serves
	Forever bool                             // messages never stop: the run is over when all have entered
	Alone   bool                             // by default only process 0 enters
	Sets    func(c Case) [][]int             // voting sets
	Delay   func(c Case) map[[2]int]sim.Time // slow links, for the case of a book
}

// ChoosesInitiators reports whether the initiators can be chosen.
func (a Algorithm) ChoosesInitiators() bool { return !a.All || a.Candidates }

// Winner is the process that must be elected.
type Winner uint8

// The winners: the highest live id, the lowest, or any single process.
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
	Entries    []int // by process: its number of entries
	Bound      sim.Time
	Seed       uint64
	Faulty     bool // this run has faults: the books' counts do not apply
	Book       bool // the case of a book, with its own schedule

	Lease     sim.Time // chubby: the length of a lease
	Drift     float64  // chubby: the bound on clock drift that the processes assume
	FromReply bool     // chubby: the lease is counted from the reply, which is wrong
}

// Starts reports whether a process begins by itself.
func (c Case) Starts(id int) bool { return slices.Contains(c.Initiators, id) }

// Top returns the highest of the initiators.
func (c Case) Top() int { return slices.Max(c.Initiators) }

// Distance returns the number of hops around the ring from one process to
// another.
func (c Case) Distance(from, to int) int {
	d := slices.Index(c.Ring, to) - slices.Index(c.Ring, from)
	return (d + c.N) % c.N
}

// Range is a book's range.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Exactly returns a range of one value.
func Exactly(v int) Range { return Range{v, v} }

// Holds reports whether the range contains v.
func (r Range) Holds(v int) bool { return r.Min <= v && v <= r.Max }

// Delays sets the two expected delays of mutual exclusion.
func (e *Expected) Delays(client, synchronization Range) *Expected {
	e.ClientDelay, e.SynchronizationDelay = &client, &synchronization
	return e
}

// Expected is the books' figures for a run without failures.
type Expected struct {
	Messages   Range `json:"messages"`
	Turnaround Range `json:"turnaround"`
	// For mutual exclusion, in message times.
	ClientDelay          *Range `json:"client_delay,omitempty"`
	SynchronizationDelay *Range `json:"synchronization_delay,omitempty"`
	Formula              string `json:"formula"`
	Source               string `json:"source"`
}

// Ascending returns the ring 0, 1, … n−1, for any initiators.
func Ascending(n int, _ []int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	return ids
}

// Descending returns the ring n−1, … 1, 0.
func Descending(n int, _ []int) []int {
	ids := Ascending(n, nil)
	slices.Reverse(ids)
	return ids
}
