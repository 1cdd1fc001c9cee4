package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/memlog"
	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
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

// fakeConf is the membership of a fake cell, with the directories that run at
// each name. The cell's mu guards it; the log's own mutex may be taken under
// that.
type fakeConf struct {
	index    uint64
	members  []membership.MemberStatus
	at       map[string]string // name → directory that answers there; absent while it is away
	behind   map[string]uint64 // directory → how far it lags
	level    map[string]uint64 // directory → the level that its release knows, if it is not 1
	blank    map[string]bool   // directories that belong to no cell
	deaf     map[string]bool   // names that get no messages of a master
	hangs    map[string]bool   // names that do not answer, and refuse nothing
	sync     map[string]uint64 // name → microseconds of a disk sync; absent for an earlier release
	writing  map[string]uint64 // name → microseconds so far of a write under way
	unsent   map[string]uint64 // name → snapshots in a row that it failed to send
	busy     bool              // an earlier change is not committed
	late     bool              // the next change takes effect when lands is called
	seen     bool              // it is in the configuration already, which is not committed
	lands    func()            // nil otherwise
	changes  []string          // changes made so far
	onAsk    func()            // if set, is called, with the cell's mu held, when a member is polled
	onChange func(n *node)     // if set, is called, with the cell's mu held, after a change
	most     int               // most voters of one name at any time
	lost     bool              // whether a name was ever without a member
}

// founder returns the first directory of a member of the fake cell.
func founder(id string) string { return memlog.Directory(id) }

func newFakeConf(nodes []*node) fakeConf {
	c := fakeConf{index: 1, at: map[string]string{}, behind: map[string]uint64{}}
	for _, r := range nodes {
		c.members = append(c.members, memberStatus(r.id, founder(r.id), true))
		c.at[r.id] = founder(r.id)
	}
	return c
}

func memberStatus(name, directory string, voter bool) membership.MemberStatus {
	return membership.MemberStatus{Member: membership.Member{ID: name, RaftAddr: name + ":7201", APIURL: "http://" + name}, Directory: directory, Voter: voter, At: name + ":7201"}
}

func (c *fakeConf) change(what membership.Change, s membership.MemberStatus) {
	i := slices.IndexFunc(c.members, func(o membership.MemberStatus) bool { return o.ID == s.ID && o.Directory == s.Directory })
	all := slices.Clone(c.members)
	switch {
	case what == membership.RemoveMember && i >= 0:
		all = slices.Delete(all, i, i+1)
	case what == membership.MakeVoter && i >= 0:
		all[i].Voter = true
	case what == membership.AddNonvoter && i < 0:
		s.Voter, s.At = false, s.RaftAddr
		all = append(all, s)
	case what == membership.DemoteMember && i >= 0:
		all[i].Voter = false
	case what == membership.MoveMember && i >= 0:
		all[i].RaftAddr, all[i].At = s.RaftAddr, s.RaftAddr
	}
	for _, m := range c.members {
		c.lost = c.lost || !slices.ContainsFunc(all, func(o membership.MemberStatus) bool { return o.ID == m.ID })
	}
	c.members = all
	c.index++
	c.changes = append(c.changes, fmt.Sprintf("%s %s/%s", what, s.ID, s.Directory))
	for _, m := range all {
		n := 0
		for _, o := range all {
			if o.ID == m.ID && o.Voter {
				n++
			}
		}
		c.most = max(c.most, n)
	}
}

// set changes fields that c.mu guards.
func (c *fakeCell) set(change func(*fakeConf)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.conf)
}

// The methods below make a node a Membership.

func (n *node) Members() []membership.MemberStatus {
	m, _ := n.Membership()
	return m.Members
}

func (n *node) Membership() (membership.Membership, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return membership.Membership{Index: n.c.conf.index, Members: n.c.conf.members, Changing: n.c.conf.lands != nil}, nil
}

func (n *node) ChangeMember(_ context.Context, since uint64, change membership.Change, s membership.MemberStatus) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	switch conf := &n.c.conf; {
	case !n.leads():
		return fmt.Errorf("%w: not the leader", membership.ErrNotApplied)
	case conf.busy || since != 0 && since != conf.index:
		return membership.ErrBusy
	case conf.late:
		conf.late, conf.lands = false, func() { conf.change(change, s) }
		if conf.seen {
			conf.lands()
			conf.lands = func() {}
		}
		return membership.ErrUnknown
	default:
		conf.change(change, s)
		if conf.onChange != nil {
			conf.onChange(n)
		}
	}
	return nil
}

func (n *node) Ask(ctx context.Context, id string) (admission.Info, error) {
	name, _ := admission.Split(id)
	n.c.mu.Lock()
	hangs := n.c.conf.hangs[name]
	n.c.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return admission.Info{}, ctx.Err()
	}
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if n.c.conf.onAsk != nil && name != n.id {
		n.c.conf.onAsk()
	}
	directory, ok := n.c.conf.at[name]
	if name == n.id {
		directory, ok = n.Directory(), true // a replica knows its own directory
	}
	if !ok {
		return admission.Info{}, errors.New("nobody answers")
	}
	applied := n.Node.Health().Applied
	in := "c1"
	if n.c.conf.blank[directory] && !slices.ContainsFunc(n.c.conf.members, func(s membership.MemberStatus) bool { return s.Directory == directory }) {
		in = ""
	}
	return admission.Info{ID: name, Directory: directory, CellID: in, HasLeader: !n.c.conf.deaf[name], Version: "test", Level: max(1, n.c.conf.level[directory]),
		Sync: n.c.conf.sync[name], Writing: n.c.conf.writing[name], Unsent: n.c.conf.unsent[name],
		Applied: applied - min(applied, n.c.conf.behind[directory])}, nil
}

func (n *node) Health() membership.Health {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	h := n.Node.Health()
	h.HasLeader = !n.c.conf.deaf[n.id]
	h.Behind += n.c.conf.behind[founder(n.id)]
	return h
}
