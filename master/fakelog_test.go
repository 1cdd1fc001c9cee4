package master

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stoutlock/stout/replica/cell"
	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/state"
)

// What follows makes a node a Log and a Membership.

func (n *node) Leading() (uint64, bool) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.term, n.leads
}

func (n *node) Changed() <-chan struct{} {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.changed
}

func (n *node) propose(e entry) chan outcome {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	f := make(chan outcome, 1)
	if !n.leads {
		f <- outcome{err: fmt.Errorf("%w: not the leader", cell.ErrNotApplied)}
		return f
	}
	e.term = n.term
	n.log = append(n.log, e)
	if e.batch != nil {
		n.promises.Stored(e.term, n.clock())
		n.batches, n.handed = append(n.batches, *e.batch), append(n.handed, n.clock())
	}
	n.futures[len(n.log)] = f
	n.c.carry(n, len(n.log))
	return f
}

func (n *node) Submit(b state.Batch) func() (*state.Outcome, error) {
	f := n.propose(entry{batch: &b})
	return func() (*state.Outcome, error) {
		o := <-f
		return o.out, o.err
	}
}

func (n *node) Due() (state.Command, bool) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return state.Command{Operation: &state.MarkState{}}, n.due
}

func (n *node) Barrier(ctx context.Context) error {
	select {
	case o := <-n.propose(entry{}):
		return o.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *node) State() *state.State {
	n.c.mu.Lock()
	s, hook := n.state, n.onState
	n.c.mu.Unlock()
	if hook != nil {
		hook()
	}
	return s
}

func (n *node) Events() *events.Ring { return n.ring }

func (n *node) PromisedBefore(term uint64) time.Duration { return n.promises.Before(term) }

func (n *node) Transfer(_ context.Context, to string) error {
	n.c.mu.Lock()
	fail, leads, delay := n.failTransfer, n.leads, n.c.delay
	if to == "" {
		for _, r := range n.c.nodes {
			if r != n && to == "" && n.c.reach(n, r) {
				to = r.id
			}
		}
	}
	n.c.mu.Unlock()
	switch {
	case fail != nil:
		return fail
	case !leads:
		return errors.New("not the leader")
	case to == "":
		return errors.New("nobody is in reach")
	}
	pass(delay)
	if !n.c.campaign(to) {
		return errors.New("the target was not elected")
	}
	return nil
}

// Silence cuts the node off: who sends it nothing and hears nothing is beyond reach.
func (n *node) Silence(d time.Duration) {
	n.c.cutOff(n.id, true)
	time.AfterFunc(d, func() { n.c.cutOff(n.id, false) })
}

// Membership.

func (n *node) Leader() string {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.leader
}

func (n *node) URL(id string) string { return "http://" + id }

func (n *node) Health() cell.Health {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return cell.Health{Heard: !n.c.conf.deaf[n.id], Applied: uint64(n.applied), Behind: uint64(len(n.log)-n.applied) + n.c.conf.behind[founder(n.id)]}
}

func (n *node) Vitals() cell.Vitals { return cell.Vitals{Term: 7} }

func (n *node) Promise() (string, time.Duration, bool) { return "", 0, false }

// sent is what this node handed over so far.
func (n *node) sent() []state.Batch {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.batches[:len(n.batches):len(n.batches)]
}

// commands counts the commands that this node handed over.
func (n *node) commands() int {
	sum := 0
	for _, b := range n.sent() {
		sum += len(b.Commands)
	}
	return sum
}

// set changes one of the fields that c.mu guards.
func (n *node) set(change func()) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	change()
}

var (
	_ Log        = (*node)(nil)
	_ Membership = (*node)(nil)
)
