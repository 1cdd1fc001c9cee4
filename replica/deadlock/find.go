package deadlock

import (
	"context"
	"slices"
	"strings"

	"github.com/stoutlock/stout/replica/state"
)

// Link is one session of a circle: it waits for a lock because of the next one.
type Link struct {
	Wait *state.Wait
	// Hold is the next session's that is in the way; nil where its place in the queue
	// is.
	Hold  *state.Hold
	Ahead *state.Wait
}

// Circle is sessions each of which waits for the next, and the last for the first.
type Circle []Link

// mostWalks bounds the search for circles: all in all it goes at most so often over
// what is in the waiters' way, and once more for the first circle of each knot.
const mostWalks = 64

// Find returns circles of a state, at most so many: each session that is in a circle
// by what others hold is in one of them, where there are no more and mostWalks is
// enough. Where sessions are caught only since one has a place ahead of another, one
// circle shows them. Equal states give the same circles.
//
// Find takes time in proportion to the places in queues and the holders of their
// locks. It ends early when ctx does, with the error of that.
func Find(ctx context.Context, s *state.State, most int) ([]Circle, error) {
	g := &graph{byID: map[string]*vertex{}, ended: ctx.Err}
	g.read(s)
	var found []Circle
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

// node is a session that waits, or an obstacle. A session leads to the obstacles in
// its way, and an obstacle to the sessions of its parts. Thousands of sessions that
// wait for the same holders share one obstacle: the graph is as large as the queues
// and their holders, not as the pairs of them.
type node struct {
	to     []*node
	gone   bool      // it keeps nothing back
	of     *vertex   // nil for an obstacle
	parted *obstacle // nil for a session

	index, low int // of Tarjan's search; index is 0 before it
	open       bool
	knot       int // number of the knot that it is in

	from *node // before it on a shortest way
	walk int   // number of the search for that way
}

// vertex is a session that waits.
type vertex struct {
	node
	id     string
	waits  []*waiting
	stuck  int         // of its waits; 0 for a session that gets on
	in     []*obstacle // those that it is a part of, once for each part
	caught bool        // a circle shows it
}

// waiting is a place in a queue with what is in its way.
type waiting struct {
	of        *vertex
	wait      *state.Wait
	obstacles []*obstacle
	stuck     int // of the obstacles
}

// obstacle is holds or places in a queue that are in the way of others.
type obstacle struct {
	node
	holds   []*state.Hold
	waits   []*state.Wait
	any     bool // it is enough that one of them goes
	stays   int  // parts whose sessions do not get on
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

// graph has the sessions that wait.
type graph struct {
	byID  map[string]*vertex
	order []*vertex // in the order of their ids
	all   []*obstacle
	size  int // links of nodes

	held     bool // the search goes by what is held only
	searched int
	path     []*node // of Tarjan's search
	found    [][]*vertex

	walks, walked int // searches for shortest ways, and links that they went along

	ended func() error // why the search is to end; nil while it is not
	steps int          // since that was asked
	err   error
}

// over reports whether the search is to end. It asks now and then.
func (g *graph) over() bool {
	if g.steps++; g.steps%1024 == 0 && g.err == nil {
		g.err = g.ended()
	}
	return g.err != nil
}

// read makes the graph of a state, and parts the sessions that get on from those that
// do not.
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

// add takes in the queue of one lock, with what is in somebody's way.
func (g *graph) add(s *state.State, queue []*state.Wait) {
	held := g.obstacle(&obstacle{holds: slices.Collect(s.Holders(queue[0].Path))})
	full := held // as who shares the lock sees it
	if len(held.holds) > 0 && held.holds[0].Mode == state.Shared {
		full = g.obstacle(&obstacle{any: true})
		if limit := held.holds[0].Limit; limit > 0 && int64(len(held.holds)) >= limit {
			full.holds = held.holds
		}
	}
	last, run := &obstacle{}, g.obstacle(&obstacle{}) // who wants it alone, and behind him those who share it
	for _, w := range queue {
		if w.Mode == state.Shared {
			g.waits(w, full, last)
			run.waits = append(run.waits, w)
			continue
		}
		g.waits(w, held, last, run) // last waits for all ahead of him
		last, run = g.obstacle(&obstacle{waits: []*state.Wait{w}}), g.obstacle(&obstacle{})
	}
}

func (g *graph) obstacle(b *obstacle) *obstacle {
	b.parted = b
	g.all = append(g.all, b)
	return b
}

// waits notes what is in the way of a wait.
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

// settle finds out who gets on: whoever waits for nobody, or only for those who get
// on.
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

// unhindered reports whether nothing was in the session's way to begin with.
func (v *vertex) unhindered() bool {
	return !slices.ContainsFunc(v.waits, func(w *waiting) bool { return len(w.obstacles) > 0 })
}

// leave notes that one part gets on, and appends the sessions that do then.
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

// leads reports whether the search goes to a node.
func (g *graph) leads(to *node) bool {
	return !to.gone && !(g.held && to.parted != nil && len(to.parted.waits) > 0)
}

// knots are the sessions that wait for each other, by who can be reached from whom:
// the strongly connected parts of the graph that have a circle (Tarjan). held goes by
// what is held only.
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

// visit is a node that the search is at, with the next of its links.
type visit struct {
	*node
	next int
}

// search finds the knots that can be reached from a node. It keeps its own stack: a
// chain of waits is as long as there are sessions.
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

// close takes a part of the graph from the path, whose first node was n. It is a knot
// unless it is a single node: no node leads to itself.
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

// shortest returns a shortest circle through a session of a knot; none where the
// search is to end.
func (g *graph) shortest(v *vertex) Circle {
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
	var c Circle
	for at := first; len(c) == 0 || at != first; {
		b := at.from
		before := b.from
		c = append(c, link(before.of, b.parted, at.of.id))
		at = before
	}
	slices.Reverse(c)
	return c
}

// link is why a session waits for another one, which an obstacle is a part of.
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
