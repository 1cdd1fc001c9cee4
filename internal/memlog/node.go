package memlog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// Node is one replica: a master.Log over the cell's log, and a
// master.Membership with members that never change.
type Node struct {
	c      *Cell
	id     string
	offset time.Duration // of its clock
	rate   float64       // of its clock, 1 = true
	slept  atomic.Int64  // how far the clock advanced while the machine was suspended

	ring     *events.Ring    // has its own mutex
	promises *lease.Promises // has its own mutex

	// Guarded by c.mu.
	log         []entry
	applied     int
	state       *state.State
	leads       bool
	term        uint64 // the term in which it leads
	seen        uint64 // highest raft term that it knows
	leader      string // as far as known here
	cut         bool   // it reaches no other node
	changed     chan struct{}
	futures     map[int]chan outcome
	batches     []state.Batch   // submitted at this node
	handed      []time.Duration // when they were submitted, on this node's clock
	due         []state.Command // commands of Put, one for each of the next batches
	refuses     error           // the error of Transfer; nil if it works
	onState     func()          // called at each State, without locks; may be nil
	beforeState func()          // like onState, before the state is read
	asOf        time.Duration   // when the last batch was applied, on this node's clock
	behind      bool            // it has not caught up since its start
}

// ID returns the node's name.
func (n *Node) ID() string { return n.id }

// Clock returns the node's own clock, which began at an arbitrary instant and
// runs at the node's rate.
func (n *Node) Clock() time.Duration {
	return n.offset + time.Duration(float64(time.Since(n.c.began))*n.rate) + time.Duration(n.slept.Load())
}

// Sleep sets the total time by which the node's clock advanced while its
// machine was suspended.
func (n *Node) Sleep(d time.Duration) { n.slept.Store(int64(d)) }

// Promises returns the node's promises.
func (n *Node) Promises() *lease.Promises { return n.promises }

// Sent returns the batches submitted at this node so far, and when, on its
// clock.
func (n *Node) Sent() ([]state.Batch, []time.Duration) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.batches[:len(n.batches):len(n.batches)], n.handed[:len(n.handed):len(n.handed)]
}

// Put adds a command to the next batch submitted here, as the log's own.
func (n *Node) Put(c state.Command) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.due = append(n.due, c)
}

// RefuseTransfer makes Transfer fail with err; nil ends that.
func (n *Node) RefuseTransfer(err error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.refuses = err
}

// Applied returns how many entries of the log the node has applied.
func (n *Node) Applied() int {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.applied
}

// AsOf returns an instant on the node's clock, and whether there is one.
// Everything acknowledged before it is in the node's state.
func (n *Node) AsOf() (time.Duration, bool) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.asOf, n.asOf > 0 && !n.behind
}

// SetAsOf sets the instant of AsOf, until the next batch is applied.
func (n *Node) SetAsOf(at time.Duration) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.asOf = at
}

// Lag sets whether the node has not caught up since its start.
func (n *Node) Lag(behind bool) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.behind = behind
}

// OnState sets a function that is called at each State, before it returns; nil
// removes it.
func (n *Node) OnState(f func()) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.onState = f
}

// BeforeState sets a function that is called at each State, before the state is
// read; nil removes it.
func (n *Node) BeforeState(f func()) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.beforeState = f
}

// Replace replaces the node's state without the log's knowledge. f must not
// call the cell.
func (n *Node) Replace(f func(*state.State) *state.State) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.state = f(n.state)
}

// Leading, Changed, Submit and the methods below make a master.Log.

// Leading reports whether the node leads, and in which raft term.
func (n *Node) Leading() (uint64, bool) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.term, n.leads
}

// Changed returns a channel that is closed at the next change of leadership.
func (n *Node) Changed() <-chan struct{} {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.changed
}

// Submit submits a batch. The returned function waits for its outcome.
func (n *Node) Submit(b state.Batch) func() (*state.Outcome, error) {
	f := n.propose(entry{batch: &b})
	return func() (*state.Outcome, error) {
		o := <-f
		return o.out, o.err
	}
}

func (n *Node) propose(e entry) chan outcome {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	f := make(chan outcome, 1)
	if !n.leads {
		f <- outcome{err: fmt.Errorf("%w: not the leader", membership.ErrNotApplied)}
		return f
	}
	e.term = n.term
	n.log = append(n.log, e)
	if e.batch != nil {
		n.promises.Stored(e.term, n.Clock())
		n.batches, n.handed = append(n.batches, *e.batch), append(n.handed, n.Clock())
	}
	n.futures[len(n.log)] = f
	n.c.send(n, len(n.log))
	return f
}

// Due returns the next command of Put.
func (n *Node) Due() (state.Command, bool) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if len(n.due) == 0 {
		return state.Command{}, false
	}
	next := n.due[0]
	n.due = n.due[1:]
	return next, true
}

// Barrier returns when everything committed before is applied here.
func (n *Node) Barrier(ctx context.Context) error {
	select {
	case o := <-n.propose(entry{}):
		return o.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// State returns the state after the last entry applied here.
func (n *Node) State() *state.State {
	n.c.mu.Lock()
	before := n.beforeState
	n.c.mu.Unlock()
	if before != nil {
		before()
	}
	n.c.mu.Lock()
	s, hook := n.state, n.onState
	n.c.mu.Unlock()
	if hook != nil {
		hook()
	}
	return s
}

// Events returns the ring of the latest events applied here.
func (n *Node) Events() *events.Ring { return n.ring }

// Restore drops all events, as a new process does that restores a snapshot of
// the present state.
func (n *Node) Restore() {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.ring.Restore(n.state.Revision)
	n.ring.Publish()
}

// PromisedBefore returns the instant from which a master of that raft term
// waits.
func (n *Node) PromisedBefore(term uint64) time.Duration { return n.promises.Before(term) }

// Transfer makes another node the leader; any node if to is empty.
func (n *Node) Transfer(_ context.Context, to string) error {
	n.c.mu.Lock()
	fail, leads, delay := n.refuses, n.leads, n.c.delay
	var next *Node
	for _, r := range n.c.nodes {
		if next == nil && (r.id == to || to == "" && r != n && n.c.reach(n, r)) {
			next = r
		}
	}
	n.c.mu.Unlock()
	switch {
	case fail != nil:
		return fail
	case !leads:
		return errors.New("not the leader")
	case next == nil:
		return errors.New("no other node is in reach")
	}
	time.Sleep(delay)
	if !n.c.Campaign(next) {
		return errors.New("the target was not elected")
	}
	return nil
}

// ahead reports whether n's log is more up to date than other's, as Raft
// defines it.
func (n *Node) ahead(other *Node) bool {
	last := func(n *Node) uint64 {
		if len(n.log) == 0 {
			return 0
		}
		return n.log[len(n.log)-1].term
	}
	return last(n) > last(other) || last(n) == last(other) && len(n.log) > len(other.log)
}

// store replaces the node's log with the leader's. c.mu is held.
func (n *Node) store(log []entry) {
	same := max(min(n.applied-1, len(log)), 0) // applied entries are the same
	for same < len(n.log) && same < len(log) && n.log[same].term == log[same].term {
		same++
	}
	if same < n.applied {
		panic("memlog breaks Raft's rules: a committed entry would be replaced")
	}
	fresh := log[same:]
	if len(fresh) == 0 && len(n.log) > len(log) {
		return // a late message
	}
	n.log = append(n.log[:same], fresh...)
	for _, e := range fresh {
		if e.batch != nil {
			n.promises.Stored(e.term, n.Clock())
		}
	}
}

// apply applies the log up to index. c.mu is held.
func (n *Node) apply(index int) {
	for n.applied < index {
		e := n.log[n.applied]
		n.applied++
		answer := outcome{}
		if e.batch != nil {
			next, out := n.state.Apply(uint64(n.applied), e.term, *e.batch)
			if err := next.Check(); err != nil {
				n.c.opts.Broken(fmt.Errorf("%s, entry %d: %w", n.id, n.applied, err))
			}
			n.state, answer.out = next, &out
			n.ring.Append(out.Changes, next)
			n.ring.Publish()
			n.asOf = n.Clock()
		}
		if f := n.futures[n.applied]; f != nil {
			delete(n.futures, n.applied)
			f <- answer
		}
	}
}

// follow makes n a follower of a leader of the same or a later term. c.mu is
// held.
func (n *Node) follow(leader *Node) {
	n.seen = leader.term
	n.stepDown()
	if n.leader != leader.id {
		n.leader = leader.id
		n.notifyChanged()
	}
}

// stepDown ends leadership. Batches in progress get an unknown outcome. c.mu is
// held.
func (n *Node) stepDown() {
	if n.leads {
		n.leads, n.leader = false, ""
		n.notifyChanged()
	}
	for i, f := range n.futures {
		delete(n.futures, i)
		f <- unknown
	}
}

// notifyChanged is called with c.mu held.
func (n *Node) notifyChanged() {
	close(n.changed)
	n.changed = make(chan struct{})
}
