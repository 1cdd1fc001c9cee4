package memlog

import (
	"fmt"
	"sync"
	"time"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// Delay is the default time in which an entry is committed; see SetDelay.
const Delay = 10 * time.Millisecond

// Options configure the nodes. The zero value is usable.
type Options struct {
	// Rates are the rates of the nodes' clocks. A missing rate is 1, an exact
	// clock.
	Rates []float64
	// Events is the number of events that each node keeps. Default: 1000.
	Events int
	// URL returns the base URL of a node's API. Default: "http://" and the
	// node's id.
	URL func(id string) string
	// Broken is called with each fault of a state after an entry. Default:
	// panic.
	Broken func(error)
}

// Cell is the log and its nodes.
type Cell struct {
	opts  Options
	began time.Time
	nodes []*Node
	carry sync.WaitGroup

	mu    sync.Mutex // guards the fields below, and most of each node
	delay time.Duration
	term  uint64 // the highest so far
}

type entry struct {
	term  uint64
	batch *state.Batch // nil for one of Raft's own entries
}

type outcome struct {
	out *state.Outcome
	err error
}

// New returns a cell of n nodes r1, r2, … without a leader.
func New(n int, o Options) *Cell {
	if o.Events == 0 {
		o.Events = 1000
	}
	if o.URL == nil {
		o.URL = func(id string) string { return "http://" + id }
	}
	if o.Broken == nil {
		o.Broken = func(err error) { panic(err) }
	}
	c := &Cell{opts: o, began: time.Now(), delay: Delay}
	for i := range n {
		r := &Node{c: c, id: fmt.Sprintf("r%d", i+1), offset: time.Duration(i+1) * time.Hour, rate: 1, state: state.New(),
			ring: events.New(o.Events, 1<<20, 0), changed: make(chan struct{}), futures: map[int]chan outcome{}}
		if i < len(o.Rates) {
			r.rate = o.Rates[i]
		}
		r.promises = lease.NewPromises(r.Clock())
		c.nodes = append(c.nodes, r)
	}
	return c
}

// Nodes returns the cell's nodes, sorted by name.
func (c *Cell) Nodes() []*Node { return c.nodes }

// Close ends everything in progress with an unknown outcome, and waits until no
// message is in transit. No node leads after it.
func (c *Cell) Close() {
	c.mu.Lock()
	for _, r := range c.nodes {
		r.stepDown()
	}
	c.mu.Unlock()
	c.carry.Wait()
}

// Elect makes n the leader of the next raft term. A leader that n cannot reach
// does not notice.
func (c *Cell) Elect(n *Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.elect(n)
}

func (c *Cell) elect(n *Node) {
	c.term++
	n.stepDown()
	n.leads, n.term, n.seen, n.leader = true, c.term, c.term, n.id
	n.log = append(n.log, entry{term: n.term})
	for _, r := range c.nodes {
		if r != n && c.reach(n, r) {
			r.follow(n)
		}
	}
	n.notifyChanged()
	c.send(n, len(n.log))
}

// Campaign elects n if Raft could. That requires that n reaches a majority of
// nodes with logs not ahead of its own. It reports whether n was elected.
func (c *Cell) Campaign(n *Node) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	votes := 0
	for _, r := range c.nodes {
		if c.reach(n, r) && !r.ahead(n) {
			votes++
		}
	}
	if 2*votes <= len(c.nodes) {
		return false
	}
	c.elect(n)
	return true
}

// Cut disconnects a node from all others, or reconnects it.
func (c *Cell) Cut(n *Node, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.cut = cut
	for _, r := range c.nodes {
		if r.leads {
			c.send(r, len(r.log))
		}
	}
}

// Depose makes a leader notice that it no longer leads.
func (c *Cell) Depose(n *Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.stepDown()
}

// Abandon makes the followers of n notice that it no longer leads.
func (c *Cell) Abandon(n *Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.nodes {
		if r != n && r.leader == n.id {
			r.leader = ""
			r.notifyChanged()
		}
	}
}

// SetDelay sets the time in which an entry is committed.
func (c *Cell) SetDelay(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay = d
}

func (c *Cell) reach(a, b *Node) bool { return a == b || !a.cut && !b.cut }

// send replicates the leader's log up to index, and then commits it. c.mu is
// held.
func (c *Cell) send(n *Node, index int) {
	term, half := n.term, c.delay/2
	c.carry.Go(func() {
		time.Sleep(half)
		c.spread(n, term)
		time.Sleep(half)
		c.commit(n, term, index)
	})
}

// spread stores the leader's log on all nodes that it reaches.
func (c *Cell) spread(n *Node, term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !n.leads || n.term != term {
		return
	}
	for _, r := range c.nodes {
		if r == n || !c.reach(n, r) {
			continue
		}
		if r.seen > n.term {
			n.stepDown()
			return
		}
		r.follow(n)
		r.store(n.log)
	}
}

// commit applies the leader's log up to index if a majority has stored it.
func (c *Cell) commit(n *Node, term uint64, index int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !n.leads || n.term != term || n.log[index-1].term != term {
		return
	}
	has := func(r *Node) bool {
		return c.reach(n, r) && len(r.log) >= index && r.log[index-1].term == term
	}
	have := 0
	for _, r := range c.nodes {
		if has(r) {
			have++
		}
	}
	if 2*have <= len(c.nodes) {
		return
	}
	n.apply(index)
	for _, r := range c.nodes {
		if r != n && has(r) {
			r.apply(index)
		}
	}
}

// unknown is the outcome of batches in progress when leadership ended.
var unknown = outcome{err: fmt.Errorf("%w: leadership was lost", membership.ErrUnknown)}
