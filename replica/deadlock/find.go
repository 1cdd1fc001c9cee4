package deadlock

import (
	"context"
	"slices"
	"strings"

	"github.com/stoutlock/stout/replica/state"
)

// Link is one session of a cycle, with the reason why it waits for the next.
type Link struct {
	Wait *state.Wait
	// Hold is the obstacle if the next session holds the lock. Otherwise it is
	// nil, and Ahead is the next session's queue position.
	Hold  *state.Hold
	Ahead *state.Wait
}

// Cycle is a sequence of sessions in which each waits for the next, and the
// last for the first.
type Cycle []Link

// mostWalks bounds the search for cycles. In total it follows at most this
// many times the number of links in the graph, plus one search for the first
// cycle of each knot.
const mostWalks = 64

// Find returns at most that many cycles of a state. Each session in a cycle
// of holds alone is in one of them, if most and mostWalks suffice. If sessions
// are caught only because of an earlier queue position, one cycle shows them.
// Equal states give equal cycles.
//
// Find takes time in proportion to the queue positions and the holders of their
// locks. It ends early when ctx does, with its error.
func Find(ctx context.Context, s *state.State, most int) ([]Cycle, error) {
	g := &graph{byID: map[string]*vertex{}, ended: ctx.Err}
	g.read(s)
	var found []Cycle
	for _, knot := range g.knots(true) {
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
	for _, knot := range g.knots(false) {
		if len(found) < most && !slices.ContainsFunc(knot, func(v *vertex) bool { return v.caught }) {
			found = append(found, g.shortest(knot[0]))
		}
	}
	if g.err != nil {
		return nil, g.err
	}
	return found, nil
}

// node is a waiting session or an obstacle. A session leads to the obstacles in
// its way, and an obstacle to the sessions of its parts. Thousands of sessions
// that wait for the same holders share one obstacle. So the graph is as large
// as the queues and their holders together, not as the number of pairs.
type node struct {
	to     []*node
	gone   bool      // it blocks no session
	of     *vertex   // nil for an obstacle
	parted *obstacle // nil for a session

	index, low int // for Tarjan's search; index is 0 before the visit
	open       bool
	knot       int // number of its knot

	from *node // the node before it on a shortest path
	walk int   // number of the search for that path
}

// vertex is a waiting session.
type vertex struct {
	node
	id     string
	waits  []*waiting
	stuck  int         // number of blocked waits; 0 for a session that can proceed
	in     []*obstacle // the obstacles that it is part of, once for each part
	caught bool        // a cycle shows it
}

// waiting is a queue position with its obstacles.
type waiting struct {
	of        *vertex
	wait      *state.Wait
	obstacles []*obstacle
	stuck     int // number of obstacles that remain
}

// obstacle is a set of holds or queue positions that block others.
type obstacle struct {
	node
	holds   []*state.Hold
	waits   []*state.Wait
	any     bool // it suffices that one part goes away
	stays   int  // number of parts with a blocked session
	holdsUp []*waiting
}

func (b *obstacle) parts() int { return len(b.holds) + len(b.waits) }

// each walks the sessions of the parts.
func (b *obstacle) each(visit func(session string)) {
	for _, h := range b.holds {
		visit(h.Session)
	}
	for _, w := range b.waits {
		visit(w.Session)
	}
}

// graph holds the waiting sessions and their obstacles.
type graph struct {
	byID  map[string]*vertex
	order []*vertex // sorted by id
	all   []*obstacle
	size  int // number of links

	held     bool // the search follows holds only
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
	full := held // the holders as an obstacle to sharing
	if len(held.holds) > 0 && held.holds[0].Mode == state.Shared {
		full = g.obstacle(&obstacle{any: true})
		if limit := held.holds[0].Limit; limit > 0 && int64(len(held.holds)) >= limit {
			full.holds = held.holds
		}
	}
	last, run := &obstacle{}, g.obstacle(&obstacle{}) // the last exclusive waiter, and the shared waiters after it
	for _, w := range queue {
		if w.Mode == state.Shared {
			g.waits(w, full, last)
			run.waits = append(run.waits, w)
			continue
		}
		g.waits(w, held, last, run) // last waits for every session ahead of it
		last, run = g.obstacle(&obstacle{waits: []*state.Wait{w}}), g.obstacle(&obstacle{})
	}
}

func (g *graph) obstacle(b *obstacle) *obstacle {
	b.parted = b
	g.all = append(g.all, b)
	return b
}

// waits records the obstacles of a wait.
func (g *graph) waits(w *state.Wait, obstacles ...*obstacle) {
	v := g.byID[w.Session]
	if v == nil {
		v = &vertex{id: w.Session}
		v.of = v
		g.byID[v.id] = v
	}
	one := &waiting{of: v, wait: w}
	for _, b := range obstacles {
		if b.parts() > 0 {
			one.obstacles = append(one.obstacles, b)
			one.stuck++
			b.holdsUp = append(b.holdsUp, one)
			v.to = append(v.to, &b.node)
			g.size++
		}
	}
	v.waits = append(v.waits, one)
	if one.stuck > 0 {
		v.stuck++
	}
}

// settle finds the sessions that can proceed: those without obstacles, or that
// wait only for sessions that can proceed.
func (g *graph) settle() {
	var free []*vertex
	for _, b := range g.all {
		b.stays = b.parts()
		b.each(func(session string) {
			g.over()
			v := g.byID[session]
			if v == nil {
				b.leave(&free)
				return
			}
			v.in = append(v.in, b)
			b.to = append(b.to, &v.node)
			g.size++
		})
	}
	for _, v := range g.order {
		if v.unhindered() {
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

// unhindered reports whether the session had no obstacles from the start.
func (v *vertex) unhindered() bool {
	return !slices.ContainsFunc(v.waits, func(w *waiting) bool { return len(w.obstacles) > 0 })
}

// leave records that one part proceeds, and appends the sessions that can
// proceed as a result.
func (b *obstacle) leave(free *[]*vertex) {
	b.stays--
	if b.gone || b.stays > 0 && !b.any {
		return
	}
	b.gone = true
	for _, w := range b.holdsUp {
		if w.stuck--; w.stuck == 0 {
			if w.of.stuck--; w.of.stuck == 0 {
				*free = append(*free, w.of)
			}
		}
	}
}

// leads reports whether the search follows a link to a node.
func (g *graph) leads(to *node) bool {
	return !to.gone && !(g.held && to.parted != nil && len(to.parted.waits) > 0)
}

// knots returns the groups of sessions that wait for each other: the strongly
// connected components of the graph that contain a cycle (Tarjan). held
// restricts the search to holds.
func (g *graph) knots(held bool) [][]*vertex {
	g.held, g.searched, g.found = held, 0, nil
	for _, v := range g.order {
		v.index = 0
	}
	for _, b := range g.all {
		b.index = 0
	}
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
			case !g.leads(to):
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
			if !g.leads(to) || to.knot != first.knot || to.walk == g.walks {
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
	var l Link
	for _, w := range v.waits {
		if slices.Contains(w.obstacles, b) {
			l.Wait = w.wait
			break
		}
	}
	if i := slices.IndexFunc(b.holds, func(h *state.Hold) bool { return h.Session == next }); i >= 0 {
		l.Hold = b.holds[i]
		return l
	}
	l.Ahead = b.waits[slices.IndexFunc(b.waits, func(a *state.Wait) bool { return a.Session == next })]
	return l
}
