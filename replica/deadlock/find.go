package deadlock

import (
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

// next is the session that is in the way.
func (l Link) next() string {
	if l.Hold != nil {
		return l.Hold.Session
	}
	return l.Ahead.Session
}

// Circle is sessions each of which waits for the next, and the last for the first.
type Circle []Link

// Find returns circles of a state, at most so many: each session that is in a circle
// by what others hold is in one of them, where there are no more. Where sessions are
// caught only since one has a place ahead of another, one circle shows them. Equal
// states give the same circles. It takes time in proportion to the places in queues
// and the holders of their locks, unless there are many circles.
func Find(s *state.State, most int) []Circle {
	g := newGraph(s)
	var found []Circle
	caught := map[*vertex]bool{}
	for _, knot := range g.knots(true) {
		for _, v := range knot {
			if caught[v] || len(found) == most {
				continue
			}
			c := g.shortest(v)
			for _, l := range c {
				caught[g.byID[l.Wait.Session]] = true
			}
			found = append(found, c)
		}
	}
	for _, knot := range g.knots(false) {
		if len(found) < most && !slices.ContainsFunc(knot, func(v *vertex) bool { return caught[v] }) {
			found = append(found, g.shortest(knot[0]))
		}
	}
	return found
}

// vertex is a session that waits.
type vertex struct {
	id    string
	waits []*waiting
	stuck int         // of its waits; 0 for a session that gets on
	in    []*obstacle // those that it is a part of, once for each part

	index, low int // of Tarjan's search; index is 0 before it
	open       bool
	knot       int // number of the knot that it is in
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
	holds   []*state.Hold
	waits   []*state.Wait
	any     bool // it is enough that one of them goes
	stays   int  // parts whose sessions do not get on
	gone    bool
	holdsUp []*waiting
}

func (b *obstacle) parts() int { return len(b.holds) + len(b.waits) }

// each walks the parts as links of a wait.
func (b *obstacle) each(w *state.Wait, visit func(Link)) {
	for _, h := range b.holds {
		visit(Link{Wait: w, Hold: h})
	}
	for _, a := range b.waits {
		visit(Link{Wait: w, Ahead: a})
	}
}

// graph has the sessions that wait.
type graph struct {
	byID  map[string]*vertex
	order []*vertex // in the order of their ids

	held     bool // the search goes by what is held only
	searched int
	path     []*vertex // of Tarjan's search
	found    [][]*vertex
}

// newGraph is the graph of a state, without the sessions that get on.
func newGraph(s *state.State) *graph {
	g := &graph{byID: map[string]*vertex{}}
	var all []*obstacle
	var queue []*state.Wait
	flush := func() {
		if len(queue) > 0 {
			all = g.add(s, queue, all)
			queue = nil
		}
	}
	for w := range s.Waits() {
		if len(queue) > 0 && queue[0].Path != w.Path {
			flush()
		}
		queue = append(queue, w)
	}
	flush()
	for _, v := range g.byID {
		g.order = append(g.order, v)
	}
	slices.SortFunc(g.order, byID)
	g.settle(all)
	return g
}

func byID(a, b *vertex) int { return strings.Compare(a.id, b.id) }

// add takes in the queue of one lock, and appends what is in somebody's way.
func (g *graph) add(s *state.State, queue []*state.Wait, all []*obstacle) []*obstacle {
	held := &obstacle{holds: slices.Collect(s.Holders(queue[0].Path))}
	full := held // as who shares the lock sees it
	if len(held.holds) > 0 && held.holds[0].Mode == state.Shared {
		full = &obstacle{any: true}
		if limit := held.holds[0].Limit; limit > 0 && int64(len(held.holds)) >= limit {
			full.holds = held.holds
		}
	}
	if all = append(all, held); full != held {
		all = append(all, full)
	}
	last, run := &obstacle{}, &obstacle{} // who wants it alone, and behind him those who share it
	all = append(all, run)
	for _, w := range queue {
		if w.Mode == state.Shared {
			g.waits(w, full, last)
			run.waits = append(run.waits, w)
			continue
		}
		g.waits(w, held, last, run) // last waits for all ahead of him
		last, run = &obstacle{waits: []*state.Wait{w}}, &obstacle{}
		all = append(all, last, run)
	}
	return all
}

// waits notes what is in the way of a wait.
func (g *graph) waits(w *state.Wait, obstacles ...*obstacle) {
	v := g.byID[w.Session]
	if v == nil {
		v = &vertex{id: w.Session}
		g.byID[v.id] = v
	}
	one := &waiting{of: v, wait: w}
	for _, b := range obstacles {
		if b.parts() > 0 {
			one.obstacles = append(one.obstacles, b)
			one.stuck++
			b.holdsUp = append(b.holdsUp, one)
		}
	}
	v.waits = append(v.waits, one)
	if one.stuck > 0 {
		v.stuck++
	}
}

// settle finds out who gets on: whoever waits for nobody, or only for those who get
// on.
func (g *graph) settle(all []*obstacle) {
	var free []*vertex
	for _, b := range all {
		b.stays = b.parts()
		b.each(nil, func(l Link) {
			if v := g.byID[l.next()]; v != nil {
				v.in = append(v.in, b)
			} else {
				b.leave(&free)
			}
		})
	}
	for _, v := range g.order {
		if v.unhindered() {
			free = append(free, v)
		}
	}
	for len(free) > 0 {
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

// links walks what keeps a session from getting on, as far as the search goes by it.
func (g *graph) links(v *vertex, visit func(Link, *vertex)) {
	for _, w := range v.waits {
		for _, b := range w.obstacles {
			if b.gone {
				continue
			}
			b.each(w.wait, func(l Link) {
				if to := g.byID[l.next()]; (l.Hold != nil || !g.held) && to != nil && to.stuck > 0 {
					visit(l, to)
				}
			})
		}
	}
}

// knots are the sessions that wait for each other, by who can be reached from whom:
// the strongly connected parts of the graph that have a circle (Tarjan). held goes by
// what is held only.
func (g *graph) knots(held bool) [][]*vertex {
	g.held, g.searched, g.found = held, 0, nil
	for _, v := range g.order {
		v.index = 0
	}
	for _, v := range g.order {
		if v.stuck > 0 && v.index == 0 {
			g.search(v)
		}
	}
	return g.found
}

func (g *graph) search(v *vertex) {
	g.searched++
	v.index, v.low, v.open = g.searched, g.searched, true
	g.path = append(g.path, v)
	self := false
	g.links(v, func(_ Link, to *vertex) {
		self = self || to == v
		if to.index == 0 {
			g.search(to)
			v.low = min(v.low, to.low)
		} else if to.open {
			v.low = min(v.low, to.index)
		}
	})
	if v.low != v.index {
		return
	}
	i := len(g.path) - 1
	for g.path[i] != v {
		i--
	}
	knot := slices.Clone(g.path[i:])
	g.path = g.path[:i]
	for _, one := range knot {
		one.open, one.knot = false, v.index
	}
	if len(knot) > 1 || self {
		slices.SortFunc(knot, byID)
		g.found = append(g.found, knot)
	}
}

// shortest is a shortest circle through a session of a knot.
func (g *graph) shortest(from *vertex) Circle {
	came := map[*vertex]Link{} // by which link each was reached
	for reached := []*vertex{from}; came[from].Wait == nil; reached = reached[1:] {
		g.links(reached[0], func(l Link, to *vertex) {
			if _, been := came[to]; !been && to.knot == from.knot {
				came[to] = l
				reached = append(reached, to)
			}
		})
	}
	var c Circle
	for v := from; len(c) == 0 || v != from; {
		l := came[v]
		c = append(c, l)
		v = g.byID[l.Wait.Session]
	}
	slices.Reverse(c)
	return c
}
