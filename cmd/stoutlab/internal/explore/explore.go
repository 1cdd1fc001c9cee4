// Package explore explores every schedule of a small network, and finds the
// shortest one that breaks a property.
package explore

import (
	"math/rand/v2"
	"slices"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
)

// Limits bound the exploration.
type Limits struct {
	Depth   int  // events in a schedule
	States  int  // distinct states
	Crashes int  // processes that may crash, each at any time
	Async   bool // time-outs at any time; otherwise only when no message is under way, as with right bounds; a stay in the critical section ends at any time
}

// Result is the result of an exploration.
type Result struct {
	Algorithm string   `json:"algorithm"`
	N         int      `json:"n"`
	Crashes   int      `json:"crashes"`
	States    int      `json:"states"`    // distinct ones
	Schedules int      `json:"schedules"` // schedules that ended
	Depth     int      `json:"depth"`     // of the longest schedule explored
	Complete  bool     `json:"complete"`  // all schedules were explored to their ends
	Walks     int      `json:"walks"`     // random schedules, tried if there were too many to explore and none of the explored ones broke a property
	Safety    bool     `json:"safety"`
	Liveness  bool     `json:"liveness"`
	Broken    []string `json:"broken"` // each violation, the shortest schedule first
	// Counterexample is a schedule that breaks a property.
	Counterexample *Counterexample `json:"counterexample"`
}

// Counterexample is a schedule, event by event, and the property that it
// breaks.
type Counterexample struct {
	Property string   `json:"property"`
	Event    string   `json:"event"`
	Shortest bool     `json:"shortest"` // otherwise it was found at random
	Schedule []string `json:"schedule"`
}

// node is a state, represented by the path to it.
type node struct {
	parent *node
	chosen sim.Choice
	depth  int
	crash  int
}

type walk struct {
	plan    *lab.Plan
	limits  Limits
	seen    map[string]*node
	result  Result
	strolls bool             // it now tries random schedules
	next    map[*node][]edge // the successors of each state, to find endless runs
}

// edge is an event in a state, and the next state.
type edge struct {
	to   *node
	text string
}

// Explore searches breadth first, so that the first counterexample is a
// shortest one. Equal states are explored once. A state is reached by repeating
// its choices from the start, so processes need not be copied.
func Explore(p *lab.Plan, l Limits) *Result {
	w := &walk{plan: p, limits: l, seen: map[string]*node{}, next: map[*node][]edge{}}
	w.result = Result{Algorithm: p.Algorithm.Name, N: p.Case.N, Crashes: l.Crashes, Complete: true,
		Safety: true, Liveness: true, Broken: []string{}}
	root := &node{}
	w.seen[w.key(w.replay(root), root)] = root
	for level := []*node{root}; len(level) > 0; {
		var deeper []*node
		for _, at := range level {
			deeper = append(deeper, w.visit(at)...)
		}
		level = deeper
	}
	w.result.States = len(w.seen)
	w.findCycle(root)
	if !w.result.Complete && w.result.Counterexample == nil {
		w.stroll()
	}
	return &w.result
}

// walks is the number of random schedules, if there are too many to explore
// all.
const walks = 300

// stroll tries random schedules, each to its end.
func (w *walk) stroll() {
	w.strolls = true
	for steps := 0; w.result.Walks < walks && steps < maxSteps && w.result.Counterexample == nil; {
		rng := rand.New(rand.NewPCG(uint64(w.result.Walks), 0x57011))
		at, n := &node{}, sim.Choosing(w.plan.Config)
		for at != nil && at.depth < maxStroll {
			at = w.stray(n, at, rng)
			steps++
		}
		w.result.Walks++
	}
}

// A random schedule without an end is abandoned; there are fewer of them if
// they are long.
const (
	maxStroll = 2000
	maxSteps  = 30_000
)

// stray takes one more step of a random schedule, and returns nil at its end.
func (w *walk) stray(n *sim.Network, at *node, rng *rand.Rand) *node {
	choices := n.Choices(!w.limits.Async, at.crash < w.limits.Crashes && rng.IntN(10) == 0)
	if out := n.Outcome(); out.Broken != nil {
		w.broken("safety", out.Broken.Text, at)
		return nil
	}
	if len(choices) == 0 || n.Over() {
		w.ended(n, at)
		return nil
	}
	c := choices[rng.IntN(len(choices))]
	n.Choose(c)
	return at.then(c)
}

// then returns the node that a choice leads to.
func (at *node) then(c sim.Choice) *node {
	to := &node{parent: at, chosen: c, depth: at.depth + 1, crash: at.crash}
	if c.Crash {
		to.crash++
	}
	return to
}

func (w *walk) replay(at *node) *sim.Network {
	n := sim.Choosing(w.plan.Config)
	for _, step := range at.path() {
		n.Choose(step.chosen)
	}
	return n
}

// path returns the nodes on the path to a node, without the root.
func (at *node) path() []*node {
	var all []*node
	for ; at.parent != nil; at = at.parent {
		all = append(all, at)
	}
	slices.Reverse(all)
	return all
}

// visit checks a state and returns its new successors.
func (w *walk) visit(at *node) (fresh []*node) {
	n := w.replay(at)
	w.result.Depth = max(w.result.Depth, at.depth)
	if out := n.Outcome(); out.Broken != nil {
		w.broken("safety", out.Broken.Text, at)
		return nil
	}
	choices := n.Choices(!w.limits.Async, at.crash < w.limits.Crashes)
	happen := slices.ContainsFunc(choices, func(c sim.Choice) bool { return !c.Crash })
	over := n.Over() // it does not end by itself
	if !happen || over {
		w.ended(n, at)
	}
	if over {
		return nil
	}
	for _, c := range choices {
		if at.depth >= w.limits.Depth || len(w.seen) >= w.limits.States {
			w.result.Complete = false
			return fresh
		}
		to := at.then(c)
		key := w.key(w.replay(to), to)
		if known, old := w.seen[key]; old {
			w.next[at] = append(w.next[at], edge{known, c.Text})
			continue
		}
		w.seen[key] = to
		w.next[at] = append(w.next[at], edge{to, c.Text})
		fresh = append(fresh, to)
	}
	return fresh
}

// key identifies a state. It includes the number of crashes so far.
func (w *walk) key(n *sim.Network, at *node) string {
	return string(rune('0'+at.crash)) + n.Key()
}

// ended checks a schedule that has no further events.
func (w *walk) ended(n *sim.Network, at *node) {
	w.result.Schedules++
	r := w.plan.Check(n.Outcome())
	if v := r.Violation; v != nil {
		w.broken(v.Property, v.Event, at)
	}
}

// maxBroken bounds the number of reported violations.
const maxBroken = 20

func (w *walk) broken(property, event string, at *node) {
	if property == "safety" {
		w.result.Safety = false
	} else {
		w.result.Liveness = false
	}
	text := property + ": " + event
	if len(w.result.Broken) < maxBroken && !slices.Contains(w.result.Broken, text) {
		w.result.Broken = append(w.result.Broken, text)
	}
	if w.result.Counterexample == nil {
		w.result.Counterexample = &Counterexample{property, event, !w.strolls, schedule(at)}
	}
}

func schedule(at *node) []string {
	texts := []string{}
	for _, step := range at.path() {
		texts = append(texts, step.chosen.Text)
	}
	return texts
}

// findCycle looks for a repeating state: a run that need never end, such as one
// with a circulating message. An election for spans of office never ends, and
// need not.
func (w *walk) findCycle(root *node) {
	if w.plan.Algorithm.Office {
		return
	}
	const open, done = 1, 2
	state := map[*node]int{root: open}
	way := []step{{at: root}}
	for len(way) > 0 {
		top := &way[len(way)-1]
		if top.taken == len(w.next[top.at]) {
			state[top.at] = done
			way = way[:len(way)-1]
			continue
		}
		to := w.next[top.at][top.taken].to
		top.taken++
		switch state[to] {
		case open:
			if i := slices.IndexFunc(way, func(s step) bool { return s.at == to }); w.fair(way[i:]) {
				w.broken("liveness", "the run may never end: a state repeats", to)
				return
			}
		case 0:
			state[to] = open
			way = append(way, step{at: to})
		}
	}
}

// step is a state on the path, and how many of its edges were tried. The path
// continues with the last of these.
type step struct {
	at    *node
	taken int
}

// fair reports whether a cycle starves no event that was always possible, such
// as the delivery of a message.
func (w *walk) fair(cycle []step) bool {
	always := map[string]int{}
	taken := map[string]bool{}
	for _, s := range cycle {
		taken[w.next[s.at][s.taken-1].text] = true
		for _, e := range w.next[s.at] {
			if e.to.crash == s.at.crash { // crashes need not happen
				always[e.text]++
			}
		}
	}
	for text, times := range always {
		if times == len(cycle) && !taken[text] {
			return false
		}
	}
	return true
}
