package deadlock

import (
	"context"
	"slices"
	"strings"

	"github.com/stoutlock/stout/replica/state"
)

// Link is one session of a cycle: its wait, and the next session's hold that
// the wait needs released.
type Link struct {
	Wait *state.Wait
	Hold *state.Hold
}

// Cycle is a sequence of sessions in which each waits for the next, and the
// last for the first.
type Cycle []Link

// mostWalks bounds the search for cycles. In total it follows at most this
// many times the number of links in the graph, plus one search for the first
// cycle of each knot.
const mostWalks = 64

// Find returns at most that many cycles of a state. Each session in a cycle is
// in one of them, if most and mostWalks suffice. Equal states give equal
// cycles.
//
// Find takes time in proportion to the queue positions and the holders of their
// locks. It ends early when ctx does, with its error.
func Find(ctx context.Context, s *state.State, most int) ([]Cycle, error) {
	g := &graph{byID: map[string]*vertex{}, ended: ctx.Err}
	g.read(s)
	var found []Cycle
	for _, knot := range g.knots() {
		for i, v := range knot {
			if v.caught || len(found) == most || i > 0 && g.walked > mostWalks*g.size {
				continue
			}
			c := g.shortest(v)
			for _, l := range c {
				g.byID[l.Wait.Session].caught = true
			}
			found = append(found, c)
		}
	}
	if g.err != nil {
		return nil, g.err
	}
	return found, nil
}

// node is a waiting session or an obstacle. Links lead from a session to the
// obstacles in its way, and from an obstacle to the sessions of its holds.
// Thousands of sessions that wait for the same holders share one obstacle. So
// the graph grows with the waits and holds, not with the pairs of waiter and
// holder.
type node struct {
	to     []*node
	gone   bool      // a session that can proceed, or an obstacle that no longer blocks
	of     *vertex   // nil for an obstacle
	parted *obstacle // nil for a session

	index, low int // for Tarjan's search; index is 0 before the visit
	open       bool
	knot       int // number of its knot, see knots

	from *node // the node before it on a shortest path
	walk int   // number of the search for that path
}

// vertex is a waiting session.
type vertex struct {
	node
	id     string
	waits  []waiting
	stuck  int         // number of waits that remain blocked; 0 for a session that can proceed
	in     []*obstacle // the obstacles that it is part of, once for each hold
	caught bool        // a cycle that was found contains it
}

// waiting is a blocked queue position.
type waiting struct {
	wait     *state.Wait
	obstacle *obstacle
}

// obstacle is a set of holds that block others.
type obstacle struct {
	node
	holds   []*state.Hold
	any     bool      // it suffices that one hold is released
	stays   int       // number of holds of blocked sessions
	holdsUp []*vertex // the sessions that it blocks, once for each wait
}

// graph holds the waiting sessions and their obstacles.
type graph struct {
	byID  map[string]*vertex
	order []*vertex // sorted by id
	all   []*obstacle
	size  int // number of links

	searched int
	path     []*node // for Tarjan's search
	found    [][]*vertex

	walks, walked int // number of searches for shortest paths, and of links they followed

	ended func() error // returns why the search must end, or nil
	steps int          // since the last call of ended
	err   error
}

// over reports whether the search must end. It checks every 1024 calls.
func (g *graph) over() bool {
	if g.steps++; g.steps%1024 == 0 && g.err == nil {
		g.err = g.ended()
	}
	return g.err != nil
}

// read builds the graph of a state, and separates the sessions that can proceed
// from the blocked ones.
func (g *graph) read(s *state.State) {
	var queue []*state.Wait
	for w := range s.Waits() {
		if g.over() {
			return
		}
		if len(queue) > 0 && queue[0].Path != w.Path {
			g.add(s, queue)
			queue = nil
		}
		queue = append(queue, w)
	}
	if len(queue) > 0 {
		g.add(s, queue)
	}
	for _, v := range g.byID {
		g.order = append(g.order, v)
	}
	slices.SortFunc(g.order, byID)
	g.settle()
	for _, v := range g.order {
		v.gone = v.stuck == 0
	}
}

func byID(a, b *vertex) int { return strings.Compare(a.id, b.id) }

// add adds the queue of one lock with its obstacles.
func (g *graph) add(s *state.State, queue []*state.Wait) {
	held := g.obstacle(&obstacle{holds: slices.Collect(s.Holders(queue[0].Path))})
	in := held // what blocks the next waiter
	if len(held.holds) > 0 && held.holds[0].Mode == state.Shared {
		in = g.obstacle(&obstacle{any: true})
		if limit := held.holds[0].Limit; limit > 0 && int64(len(held.holds)) >= limit {
			in.holds = held.holds
		}
	}
	for _, w := range queue {
		if w.Mode == state.Exclusive {
			in = held // it blocks all later waiters, too
		}
		g.waits(w, in)
	}
}

func (g *graph) obstacle(b *obstacle) *obstacle {
	b.parted = b
	g.all = append(g.all, b)
	return b
}

// waits records the obstacle of a wait.
func (g *graph) waits(w *state.Wait, b *obstacle) {
	v := g.byID[w.Session]
	if v == nil {
		v = &vertex{id: w.Session}
		v.of = v
		g.byID[v.id] = v
	}
	if len(b.holds) > 0 {
		v.waits = append(v.waits, waiting{w, b})
		v.stuck++
		b.holdsUp = append(b.holdsUp, v)
		v.to = append(v.to, &b.node)
		g.size++
	}
}

// settle finds the sessions that can proceed: those without obstacles, or that
// wait only for sessions that can proceed.
func (g *graph) settle() {
	var free []*vertex
	for _, b := range g.all {
		b.stays = len(b.holds)
		for _, h := range b.holds {
			g.over()
			v := g.byID[h.Session]
			if v == nil {
				b.leave(&free)
				continue
			}
			v.in = append(v.in, b)
			b.to = append(b.to, &v.node)
			g.size++
		}
	}
	for _, v := range g.order {
		if len(v.waits) == 0 {
			free = append(free, v)
		}
	}
	for len(free) > 0 && !g.over() {
		v := free[len(free)-1]
		free = free[:len(free)-1]
		for _, b := range v.in {
			b.leave(&free)
		}
	}
}

// leave records that the session of one hold proceeds, and appends the sessions
// that can proceed as a result.
func (b *obstacle) leave(free *[]*vertex) {
	b.stays--
	if b.gone || b.stays > 0 && !b.any {
		return
	}
	b.gone = true
	for _, v := range b.holdsUp {
		if v.stuck--; v.stuck == 0 {
			*free = append(*free, v)
		}
	}
}

// knots returns the groups of sessions that wait for each other: the strongly
// connected components of the graph that contain a cycle (Tarjan).
func (g *graph) knots() [][]*vertex {
	for _, v := range g.order {
		if !v.gone && v.index == 0 {
			g.search(&v.node)
		}
	}
	return g.found
}

// visit is a node on the search's stack, with the index of its next link.
type visit struct {
	*node
	next int
}

// search finds the knots that can be reached from a node. It keeps its own
// stack, because a chain of waits can be as long as the number of sessions.
func (g *graph) search(first *node) {
	stack := []visit{g.enter(first)}
	for len(stack) > 0 && !g.over() {
		at := &stack[len(stack)-1]
		if at.next < len(at.to) {
			to := at.to[at.next]
			at.next++
			switch {
			case to.gone:
			case to.index == 0:
				stack = append(stack, g.enter(to))
			case to.open:
				at.low = min(at.low, to.index)
			}
			continue
		}
		n := at.node
		stack = stack[:len(stack)-1]
		if len(stack) > 0 {
			before := stack[len(stack)-1]
			before.low = min(before.low, n.low)
		}
		if n.low == n.index {
			g.close(n)
		}
	}
}

func (g *graph) enter(n *node) visit {
	g.searched++
	n.index, n.low, n.open = g.searched, g.searched, true
	g.path = append(g.path, n)
	return visit{node: n}
}

// close takes the component that begins with n from the path. It is a knot
// unless it is a single node, since no node leads to itself.
func (g *graph) close(n *node) {
	i := len(g.path) - 1
	for g.path[i] != n {
		i--
	}
	var knot []*vertex
	for _, one := range g.path[i:] {
		one.open, one.knot = false, n.index
		if one.of != nil {
			knot = append(knot, one.of)
		}
	}
	if len(g.path)-i > 1 {
		slices.SortFunc(knot, byID)
		g.found = append(g.found, knot)
	}
	g.path = g.path[:i]
}

// shortest returns a shortest cycle through a session of a knot, or nil if the
// search must end.
func (g *graph) shortest(v *vertex) Cycle {
	first := &v.node
	g.walks++
	first.from = nil
	for reached := []*node{first}; first.from == nil; reached = reached[1:] {
		if len(reached) == 0 || g.over() {
			return nil
		}
		for _, to := range reached[0].to {
			g.walked++
			if to.gone || to.knot != first.knot || to.walk == g.walks {
				continue
			}
			to.walk, to.from = g.walks, reached[0]
			reached = append(reached, to)
		}
	}
	var c Cycle
	for at := first; len(c) == 0 || at != first; {
		b := at.from
		before := b.from
		c = append(c, link(before.of, b.parted, at.of.id))
		at = before
	}
	slices.Reverse(c)
	return c
}

// link returns why a session waits for another, which is part of an obstacle.
func link(v *vertex, b *obstacle, next string) Link {
	w := slices.IndexFunc(v.waits, func(w waiting) bool { return w.obstacle == b })
	h := slices.IndexFunc(b.holds, func(h *state.Hold) bool { return h.Session == next })
	return Link{v.waits[w].wait, b.holds[h]}
}
