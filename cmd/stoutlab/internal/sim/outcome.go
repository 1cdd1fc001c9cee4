package sim

import (
	"fmt"
	"slices"
)

// Outcome is the outcome of a run.
type Outcome struct {
	Messages int   // sent, without messages to oneself
	ToSelf   int   // messages that processes sent to themselves
	ByKind   []int // of Messages
	Bits     int   // all messages together
	Chain    int   // the longest causal chain, in messages; a time-out counts as one
	Time     Time  // of the last event that a process saw
	Events   int

	Endless bool // stopped by a limit
	Loop    int  // the same state repeated after this many events: the run never ends
	CutOff  bool // ended by Config.Until

	Leaders   []int // each process's leader at the end; NoProcess if it knows no leader or is dead
	Alive     []bool
	Cut       []bool
	Announced []int // processes that announced themselves as leader at some time, in order
	Beliefs   []Belief
	Tally     []int
	Sections  []Section
	Broken    *Breach // the first event that broke mutual exclusion, or gave two leaders

	Trace     []Record
	Truncated bool // the trace was too short for the whole run
}

// Belief is an event: a process begins to believe in a leader.
type Belief struct {
	At      Time
	Process int
	Leader  int
}

// Section is an event of mutual exclusion.
type Section struct {
	At      Time
	Process int
	What    Action
	Past    []int // vector clock, if the Config asks for it
}

// Breach is an event that broke safety.
type Breach struct {
	At   Time
	Text string
}

func (n *Network) elect(p, leader int) {
	if !n.alive[p] || n.leader[p] == leader {
		return
	}
	n.leader[p] = leader
	n.out.Beliefs = append(n.out.Beliefs, Belief{n.now, p, leader})
	if p == leader && !slices.Contains(n.out.Announced, p) {
		n.out.Announced = append(n.out.Announced, p)
	}
	if n.tracing {
		n.note(p, Elected, fmt.Sprintf("leader %d", leader))
	}
}

// lead records a span of office, in true time, and checks whether another
// process is in office now.
func (n *Network) lead(p int, until Time) {
	if !n.alive[p] {
		return
	}
	if n.leads == nil {
		n.leads = make([]Time, len(n.procs))
	}
	left := float64(until-n.local(p)) / n.rate(p)
	n.leads[p] = max(n.leads[p], n.now+Time(left))
	n.note(p, Leads, fmt.Sprintf("in office until %d", n.leads[p]))
	for q, end := range n.leads {
		if q != p && n.now < min(end, n.leads[p]) {
			n.breach(fmt.Sprintf("process %d leads while the lease of process %d runs until %d", p, q, end))
		}
	}
}

func (n *Network) endLead(p int) {
	if n.leads != nil {
		n.leads[p] = min(n.leads[p], n.now)
	}
}

func (n *Network) tally(i int) {
	for len(n.out.Tally) <= i {
		n.out.Tally = append(n.out.Tally, 0)
	}
	n.out.Tally[i]++
}

func (n *Network) section(p int, what Action) {
	if !n.alive[p] {
		return
	}
	n.out.Sections = append(n.out.Sections, Section{n.now, p, what, n.stamp(p)})
	n.note(p, what, "")
	if what == Leave {
		n.left[p]++
		n.lookOver()
	}
	if what != Want {
		n.inside(p, what == Enter)
	}
}

func (n *Network) inside(p int, in bool) {
	i := slices.Index(n.within, p)
	for _, q := range n.within {
		if in && q != p {
			n.breach(fmt.Sprintf("process %d enters while process %d is inside", p, q))
		}
	}
	if in && i < 0 {
		n.within = append(n.within, p)
	}
	if !in && i >= 0 {
		n.within = slices.Delete(n.within, i, i+1)
	}
}

func (n *Network) breach(text string) {
	if n.out.Broken == nil {
		n.out.Broken = &Breach{n.now, text}
	}
}

// stamp counts one event and returns a copy of the process's vector clock.
func (n *Network) stamp(p int) []int {
	if n.past == nil {
		return nil
	}
	n.past[p][p]++
	return slices.Clone(n.past[p])
}

// learn merges the vector clock of a message.
func (n *Network) learn(p int, past []int) {
	for i, v := range past {
		n.past[p][i] = max(n.past[p][i], v)
	}
}

func (n *Network) finish() *Outcome {
	n.out.Leaders, n.out.Alive, n.out.Cut = n.leader, n.alive, n.cut
	for k, count := range n.out.ByKind {
		n.out.Bits += count * n.cfg.Kinds[k].bits(len(n.cfg.Kinds), n.cfg.N)
	}
	return &n.out
}
