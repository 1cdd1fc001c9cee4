package master

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/cell"
	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/state"
)

// fakeCell is a replicated log in memory and the masters on it, for use in a
// synctest bubble. It keeps Raft's promises about the log, and leaves to the
// test what Raft leaves open: who leads in which raft term, who can reach whom,
// how long a message takes, how fast each replica's clock runs.
//
// An entry is stored by the leader at once and by those it can reach half a
// delay later; it is committed after a whole delay, where a majority has it. A
// new leader's log is what counts: entries that it lacks are dropped.
type fakeCell struct {
	t     *testing.T
	began time.Time

	mu    sync.Mutex
	delay time.Duration
	term  uint64 // highest so far
	nodes []*node
	conf  fakeConf
}

type entry struct {
	term  uint64
	batch *state.Batch // nil: an entry of Raft's own
}

type outcome struct {
	out *state.Outcome
	err error
}

// node is one replica: master.Log and master.Membership over the fake log.
type node struct {
	c      *fakeCell
	id     string
	rate   float64      // of its clock, 1 = true
	slept  atomic.Int64 // for how long its machine was suspended, in which its clock went on
	master *Master

	// Guarded by c.mu.
	log          []entry
	applied      int
	state        *state.State
	ring         *events.Ring // has a mutex of its own
	promises     *lease.Promises
	leads        bool
	term         uint64 // leads in
	seen         uint64 // highest raft term that it has heard of
	leader       string // as far as known here
	cut          bool   // reaches nobody
	changed      chan struct{}
	futures      map[int]chan outcome
	batches      []state.Batch   // handed over here
	handed       []time.Duration // when, on this node's clock
	failTransfer error
	due          bool   // a mark of the state is, with each batch
	onState      func() // called at each State(), without locks
}

const fakeDelay = 10 * time.Millisecond

// leaseTerm is the lease of the tests' masters.
const leaseTerm = 2 * time.Second

// newFakeCell makes a cell of n replicas r1, r2, … without a leader. rates are
// those of their clocks; 1 where missing.
func newFakeCell(t *testing.T, n int, o Options, rates ...float64) *fakeCell {
	c := &fakeCell{t: t, began: time.Now(), delay: fakeDelay}
	for i := range n {
		r := &node{c: c, id: fmt.Sprintf("r%d", i+1), rate: 1, state: state.New(), ring: events.New(1000, 1<<20, 0),
			changed: make(chan struct{}), futures: map[int]chan outcome{}}
		if i < len(rates) {
			r.rate = rates[i]
		}
		r.promises = lease.NewPromises(r.clock())
		c.nodes = append(c.nodes, r)
	}
	c.conf = newFakeConf(c.nodes)
	for _, r := range c.nodes {
		own := o
		own.Cell, own.ID, own.Clock, own.Logger = "test", r.id, r.clock, zerolog.Nop()
		if own.LeaseTerm == 0 {
			own.LeaseTerm = leaseTerm
		}
		r.master = New(r, r, own)
	}
	return c
}

// close ends everything that runs in the bubble.
func (c *fakeCell) close() {
	for _, r := range c.nodes {
		r.master.stop()
		<-r.master.done
	}
	c.mu.Lock()
	for _, r := range c.nodes {
		r.stepDown()
	}
	c.mu.Unlock()
	pass(time.Hour) // messages under way arrive nowhere, calls under way end
}

// pass lets d of true time go by.
func pass(d time.Duration) { <-time.After(d) }

// clock is the node's own: it began at an arbitrary value and runs at its rate.
func (n *node) clock() time.Duration {
	return time.Duration(n.id[1]-'0')*time.Hour + time.Duration(float64(time.Since(n.c.began))*n.rate) + time.Duration(n.slept.Load())
}

func (c *fakeCell) node(id string) *node {
	for _, r := range c.nodes {
		if r.id == id {
			return r
		}
	}
	c.t.Helper()
	c.t.Fatalf("no replica %q", id)
	return nil
}

// elect makes id the leader of the next raft term. A leader that is cut off
// does not hear of it.
func (c *fakeCell) elect(id string) *node {
	n := c.node(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term++
	n.stepDown()
	n.leads, n.term, n.seen, n.leader = true, c.term, c.term, id
	n.log = append(n.log, entry{term: n.term})
	for _, r := range c.nodes {
		if r != n && c.reach(n, r) {
			r.follow(n)
		}
	}
	n.tellChanged()
	c.carry(n, len(n.log))
	return n
}

// campaign elects a replica where Raft could: it reaches a majority whose logs
// are not ahead of its own. It reports whether it was elected.
func (c *fakeCell) campaign(id string) bool {
	n := c.node(id)
	c.mu.Lock()
	votes := 0
	for _, r := range c.nodes {
		if c.reach(n, r) && !r.ahead(n) {
			votes++
		}
	}
	c.mu.Unlock()
	if 2*votes <= len(c.nodes) {
		return false
	}
	c.elect(id)
	return true
}

// ahead reports whether n's log is more up to date than other's, as Raft has
// it.
func (n *node) ahead(other *node) bool {
	last := func(n *node) uint64 {
		if len(n.log) == 0 {
			return 0
		}
		return n.log[len(n.log)-1].term
	}
	return last(n) > last(other) || last(n) == last(other) && len(n.log) > len(other.log)
}

// office elects id and waits until it is in office.
func (c *fakeCell) office(id string) *node {
	c.t.Helper()
	n := c.elect(id)
	c.inOffice(n, time.Minute)
	return n
}

// inOffice waits until n is in office, for up to d.
func (c *fakeCell) inOffice(n *node, d time.Duration) *office {
	c.t.Helper()
	timeout := time.After(d)
	for {
		changed := n.master.officeChanged()
		if o := n.master.inOffice(); o != nil {
			c.oneLease()
			return o
		}
		select {
		case <-changed:
		case <-timeout:
			c.t.Fatalf("%s is not in office after %v", n.id, d)
		}
	}
}

// cutOff takes a replica away from the others, or brings it back.
func (c *fakeCell) cutOff(id string, cut bool) {
	n := c.node(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	n.cut = cut
	for _, r := range c.nodes {
		if r.leads {
			c.carry(r, len(r.log))
		}
	}
}

// depose makes a leader notice that it is none any more.
func (c *fakeCell) depose(id string) {
	n := c.node(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	n.stepDown()
}

func (c *fakeCell) setDelay(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay = d
}

func (c *fakeCell) reach(a, b *node) bool { return a == b || !a.cut && !b.cut }

// carry brings the leader's log up to index to the others, and then commits it.
// c.mu is held.
func (c *fakeCell) carry(n *node, index int) {
	term, half := n.term, c.delay/2
	go func() {
		pass(half)
		c.spread(n, term)
		pass(half)
		c.commit(n, term, index)
	}()
}

// spread stores the leader's log at all that it can reach.
func (c *fakeCell) spread(n *node, term uint64) {
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
		same := 0
		for same < len(r.log) && same < len(n.log) && r.log[same].term == n.log[same].term {
			same++
		}
		if same < r.applied {
			panic("the fake breaks Raft: a committed entry would be replaced")
		}
		fresh := n.log[same:]
		if len(fresh) == 0 && len(r.log) > len(n.log) {
			continue // a late message
		}
		r.log = append(r.log[:same:same], fresh...)
		for _, e := range fresh {
			if e.batch != nil {
				r.promises.Stored(e.term, r.clock())
			}
		}
	}
}

// commit applies the leader's log up to index where a majority has stored it.
func (c *fakeCell) commit(n *node, term uint64, index int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !n.leads || n.term != term || n.log[index-1].term != term {
		return
	}
	have := 0
	for _, r := range c.nodes {
		if c.reach(n, r) && len(r.log) >= index && r.log[index-1].term == term {
			have++
		}
	}
	if 2*have <= len(c.nodes) {
		return
	}
	n.apply(index)
	for _, r := range c.nodes {
		if r != n && c.reach(n, r) && len(r.log) >= index && r.log[index-1].term == term {
			r.apply(index)
		}
	}
}

// apply applies the log up to index. c.mu is held.
func (n *node) apply(index int) {
	for n.applied < index {
		e := n.log[n.applied]
		n.applied++
		answer := outcome{}
		if e.batch != nil {
			next, out := n.state.Apply(uint64(n.applied), e.term, *e.batch)
			if err := next.Check(); err != nil {
				n.c.t.Errorf("%s, entry %d: %v", n.id, n.applied, err)
			}
			n.state, answer.out = next, &out
			n.ring.Append(out.Changes, next)
			n.ring.Tell()
		}
		if f := n.futures[n.applied]; f != nil {
			delete(n.futures, n.applied)
			f <- answer
		}
	}
}

// follow makes n a follower of a leader of the same or a later term. c.mu is
// held.
func (n *node) follow(leader *node) {
	n.seen = leader.term
	n.stepDown()
	if n.leader != leader.id {
		n.leader = leader.id
		n.tellChanged()
	}
}

// stepDown ends leadership: what was under way has an unknown outcome. c.mu is
// held.
func (n *node) stepDown() {
	if n.leads {
		n.leads, n.leader = false, ""
		n.tellChanged()
	}
	for i, f := range n.futures {
		delete(n.futures, i)
		f <- outcome{err: fmt.Errorf("%w: leadership was lost", cell.ErrUnknown)}
	}
}

// tellChanged is called with c.mu held.
func (n *node) tellChanged() {
	close(n.changed)
	n.changed = make(chan struct{})
}
