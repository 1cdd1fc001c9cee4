package master

import (
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/memlog"
	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/replica/state"
)

// fakeCell is a log in memory and the masters on it, for use in a synctest
// bubble.
type fakeCell struct {
	t     *testing.T
	log   *memlog.Cell
	nodes []*node
	began time.Time
	delay time.Duration // how long an entry takes, see setDelay

	mu   sync.Mutex
	conf fakeConf
}

// node is one replica: master.Log over the log in memory, and master.Membership
// over the fake one.
type node struct {
	*memlog.Node
	c      *fakeCell
	id     string
	master *Master
	until  chan struct{} // entries are withheld until it is closed, unless it is nil
}

func (n *node) Submit(b state.Batch) func() (*state.Outcome, error) {
	if n.until != nil {
		<-n.until
	}
	return n.Node.Submit(b)
}

const fakeDelay = memlog.Delay

// leaseTerm is the lease of the tests' masters.
const leaseTerm = 2 * time.Second

// newFakeCell makes a cell of n replicas r1, r2, … without a leader. rates are
// the rates of their clocks; a missing one is 1.
func newFakeCell(t *testing.T, n int, o Options, rates ...float64) *fakeCell {
	c := &fakeCell{t: t, began: time.Now(), delay: fakeDelay}
	c.log = memlog.New(n, memlog.Options{Rates: rates, Broken: func(err error) { t.Error(err) }})
	for _, r := range c.log.Nodes() {
		c.nodes = append(c.nodes, &node{Node: r, c: c, id: r.ID()})
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
	c.log.Close()
	pass(time.Hour) // calls under way end
}

// pass lets d of true time go by.
func pass(d time.Duration) { <-time.After(d) }

func (n *node) clock() time.Duration { return n.Clock() }

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
// does not notice.
func (c *fakeCell) elect(id string) *node {
	n := c.node(id)
	c.log.Elect(n.Node)
	return n
}

// campaign elects a replica where Raft could. It reports whether it was
// elected.
func (c *fakeCell) campaign(id string) bool { return c.log.Campaign(c.node(id).Node) }

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
func (c *fakeCell) cutOff(id string, cut bool) { c.log.Cut(c.node(id).Node, cut) }

// depose makes a leader notice that it has lost leadership.
func (c *fakeCell) depose(id string) { c.log.Depose(c.node(id).Node) }

func (c *fakeCell) setDelay(d time.Duration) {
	c.delay = d
	c.log.SetDelay(d)
}

// leads reports whether n leads.
func (n *node) leads() bool {
	_, leads := n.Leading()
	return leads
}

// term returns the raft term that n leads in, or led in last.
func (n *node) term() uint64 {
	term, _ := n.Leading()
	return term
}

// change changes n's state behind the log's back.
func (n *node) change(f func(s *state.State)) {
	n.Replace(func(now *state.State) *state.State {
		changed := *now
		f(&changed)
		return &changed
	})
}

// sent returns what this node has handed over so far.
func (n *node) sent() []state.Batch {
	batches, _ := n.Sent()
	return batches
}

// commands counts the commands that this node handed over.
func (n *node) commands() int {
	sum := 0
	for _, b := range n.sent() {
		sum += len(b.Commands)
	}
	return sum
}

func (n *node) Metrics() metric.Set { return nil }

var (
	_ Log        = (*node)(nil)
	_ Membership = (*node)(nil)
)
