package sim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Choice is one event that could happen next.
type Choice struct {
	Crash   bool // Process crashes now
	Process int
	index   int
	Text    string
}

// Choosing makes a network where the caller chooses the order of events. Its
// processes have started.
func Choosing(cfg Config) *Network {
	n := New(cfg)
	n.start()
	return n
}

// Choices returns all events that could happen next: the oldest message of each
// link (any of its messages with Reorder), the reports of a detector, and the
// next timer. Messages take any time here, or no time. With timersLast, a timer
// fires only after everything under way, as with right time-outs; otherwise at
// any moment. A timer below 0 is a user's stay or pause, not a time-out: it ends
// at any moment in either case. With crashes, the list includes crashes.
func (n *Network) Choices(timersLast, crashes bool) []Choice {
	n.sweep()
	var all, timers []Choice
	seen := map[[3]int]bool{}
	next := Time(math.MaxInt64)
	for _, e := range n.pending {
		if e.timeout() {
			next = min(next, e.at)
		}
	}
	for i, e := range n.pending {
		c := Choice{Process: e.to, index: i, Text: n.describe(e)}
		link := [3]int{int(e.what), e.m.From, e.to}
		switch {
		case e.timeout():
			if e.at == next {
				timers = append(timers, c)
			}
		case e.what != Received || n.cfg.Reorder || !seen[link]:
			seen[link] = true
			all = append(all, c)
		}
	}
	if !timersLast || len(all) == 0 {
		all = append(all, timers...)
	}
	for p := 0; crashes && p < n.cfg.N; p++ {
		if n.alive[p] {
			all = append(all, Choice{Crash: true, Process: p, Text: fmt.Sprintf("process %d crashes", p)})
		}
	}
	return all
}

// timeout reports whether the event is a timer of the algorithm.
func (e event) timeout() bool { return e.what == TimedOut && e.timer >= 0 }

// sweep removes events that can no longer happen.
func (n *Network) sweep() {
	n.pending = slices.DeleteFunc(n.pending, func(e event) bool {
		switch {
		case e.what == TimedOut:
			return !n.alive[e.to] || n.timers[e.to][e.timer] != e.epoch
		case e.what == Received && e.around != 0:
			return false
		}
		return !n.alive[e.to]
	})
}

// Choose makes a choice happen. It must be one of the Choices of the present
// state.
func (n *Network) Choose(c Choice) {
	n.sweep()
	if c.Crash {
		n.crash(c.Process)
		return
	}
	e := n.pending[c.index]
	n.pending = slices.Delete(n.pending, c.index, c.index+1)
	if e.what == TimedOut {
		n.now = max(n.now, e.at)
	}
	n.happen(e)
}

func (n *Network) describe(e event) string {
	switch e.what {
	case Received:
		return fmt.Sprintf("%s from %d reaches %d", n.cfg.Kinds[e.m.Kind].text(e.m), e.m.From, e.to)
	case TimedOut:
		if !e.timeout() {
			return fmt.Sprintf("a stay or a pause of %d ends", e.to)
		}
		return fmt.Sprintf("a timer of %d runs out", e.to)
	case Suspected:
		return fmt.Sprintf("a detector reports to %d that %d has crashed", e.to, e.timer)
	}
	return fmt.Sprintf("%s %d", e.what, e.to)
}

// Outcome returns the outcome of the run so far.
func (n *Network) Outcome() *Outcome {
	out := n.out
	out.Leaders, out.Alive, out.Cut = n.leader, n.alive, n.cut
	return &out
}

// Key returns a text that two networks share if the same events can still
// happen to them: the processes' states and everything under way. Times count
// from now.
func (n *Network) Key() string {
	n.sweep()
	var b strings.Builder
	for p, proc := range n.procs {
		if !n.alive[p] {
			b.WriteString("dead\n")
			continue
		}
		fmt.Fprintf(&b, "%s %d\n", State(proc), n.leader[p])
	}
	fmt.Fprintln(&b, n.within, n.cut, n.faults)
	if n.chance { // future random numbers
		state, _ := n.source.MarshalBinary() // it cannot fail
		fmt.Fprintf(&b, "%x\n", state)
	}
	if n.leads != nil { // spans of office, and the processes' records of them, are in absolute time
		fmt.Fprintln(&b, n.now, n.leads)
	}
	var under []string
	place := map[[3]int]int{} // the order on a link matters, the order between links does not
	each := func(e event) {
		if e.what == TimedOut && n.timers[e.to][e.timer] != e.epoch {
			return
		}
		link := [3]int{int(e.what), e.m.From, e.to}
		place[link]++
		m := e.m
		text := make([]byte, 0, 64)
		for _, v := range [...]int{link[0], link[1], link[2], place[link], e.timer, e.around, int(m.Kind), m.To, m.ID, m.By, m.Round, m.Hops, m.Era} {
			text = append(strconv.AppendInt(text, int64(v), 10), ' ')
		}
		under = append(under, string(strconv.AppendInt(text, n.wait(e), 10)))
	}
	for _, e := range n.pending {
		each(e)
	}
	if n.agenda != nil {
		n.agenda.all(each)
	}
	slices.Sort(under)
	return b.String() + strings.Join(under, "\n")
}

func (n *Network) wait(e event) Time {
	if n.agenda == nil && !e.timeout() {
		return 0
	}
	return e.at - n.now
}
