// Package explore walks through every schedule of a small network, and finds
// the shortest one that breaks something.
package explore

import (
	"math/rand/v2"
	"slices"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
)

// Limits say how far to go.
type Limits struct {
	Depth   int  // events in a schedule
	States  int  // states to look at
	Crashes int  // processes that may crash, each at any time
	Async   bool // time-outs at any time; else only when nothing is under way, as if bounds were right
}

// Result is what came of it.
type Result struct {
	Algorithm string   `json:"algorithm"`
	N         int      `json:"n"`
	Crashes   int      `json:"crashes"`
	States    int      `json:"states"`    // different ones
	Schedules int      `json:"schedules"` // that came to an end
	Depth     int      `json:"depth"`     // of the longest schedule walked
	Complete  bool     `json:"complete"`  // all schedules were walked to their end
	Walks     int      `json:"walks"`     // by chance, where that was too much and nothing broke
	Safety    bool     `json:"safety"`
	Liveness  bool     `json:"liveness"`
	Broken    []string `json:"broken"` // each way in which something breaks, the shortest first
	// Counterexample is a schedule that breaks something.
	Counterexample *Counterexample `json:"counterexample"`
}

// Counterexample is a schedule, event by event, and what it breaks.
type Counterexample struct {
	Property string   `json:"property"`
	Event    string   `json:"event"`
	Shortest bool     `json:"shortest"` // else it was found by chance
	Schedule []string `json:"schedule"`
}

// node is a state, by the way that leads to it.
type node struct {
	parent *node
	take   sim.Choice
	depth  int
	crash  int
}

// walk is an exploration under way.
type walk struct {
	plan    *lab.Plan
	limits  Limits
	seen    map[string]*node
	result  Result
	strolls bool             // by chance now
	next    map[*node][]edge // where each state leads, to find runs without end
}

// edge is what happens in a state, and where it leads.
type edge struct {
	to   *node
	text string
}

// Explore walks breadth first, so that the first counterexample is a shortest
// one. States that are equal are walked from once. A state is reached by taking
// the same choices again from the start: processes need not know how to be
// copied.
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

// walks is how many schedules are tried where there are too many to walk all.
const walks = 300

// stroll takes schedules by chance, each to its end.
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

// A schedule by chance is left where it has no end, and they are fewer where
// they are long.
const (
	maxStroll = 2000
	maxSteps  = 30_000
)

// stray takes one more step of a schedule, and returns nil at its end.
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
	n.Take(c)
	return at.then(c)
}

// then is the node that a choice leads to.
func (at *node) then(c sim.Choice) *node {
	to := &node{parent: at, take: c, depth: at.depth + 1, crash: at.crash}
	if c.Crash {
		to.crash++
	}
	return to
}

func (w *walk) replay(at *node) *sim.Network {
	n := sim.Choosing(w.plan.Config)
	for _, step := range at.path() {
		n.Take(step.take)
	}
	return n
}

// path is the way to a node, without the root.
func (at *node) path() []*node {
	var all []*node
	for ; at.parent != nil; at = at.parent {
		all = append(all, at)
	}
	slices.Reverse(all)
	return all
}

// visit judges a state and finds those that come next and are new.
func (w *walk) visit(at *node) (fresh []*node) {
	n := w.replay(at)
	w.result.Depth = max(w.result.Depth, at.depth)
	if out := n.Outcome(); out.Broken != nil {
		w.broken("safety", out.Broken.Text, at)
		return nil
	}
	choices := n.Choices(!w.limits.Async, at.crash < w.limits.Crashes)
	happen := slices.ContainsFunc(choices, func(c sim.Choice) bool { return !c.Crash })
	over := n.Over() // it has no end of its own
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

// key tells states apart. How many crashes are left matters as well.
func (w *walk) key(n *sim.Network, at *node) string {
	return string(rune('0'+at.crash)) + n.Key()
}

// ended judges a schedule at whose end nothing is left to do.
func (w *walk) ended(n *sim.Network, at *node) {
	w.result.Schedules++
	r := w.plan.Judge(n.Outcome())
	if v := r.Violation; v != nil {
		w.broken(v.Property, v.Event, at)
	}
}

// maxBroken bounds how many ways to break are told.
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
		texts = append(texts, step.take.Text)
	}
	return texts
}

// findCycle looks for a state that comes back: a run that need never end, such
// as one whose message circulates. Elections for a span of office go on for
// ever as they should.
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
				w.broken("liveness", "the run can go on for ever: a state comes back", to)
				return
			}
		case 0:
			state[to] = open
			way = append(way, step{at: to})
		}
	}
}

// step is a state on the way, and how many of its edges were looked at. The
// last of these is the one that the way goes on by.
type step struct {
	at    *node
	taken int
}

// fair reports whether nothing that could happen all the time in a cycle is put
// off for ever by it: such as a message that is never delivered.
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
