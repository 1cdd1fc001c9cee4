package batch

import (
	"time"

	"github.com/stoutlock/stout/internal/faultpoint"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// maxBatchCommands bounds a batch, as do membership.MaxBatchBytes.
const maxBatchCommands = 128

// pace says when what has gathered is worth an entry: when no entry is under
// way, or when it is half of what the last two held together.
//
// Without the second condition large and tiny batches take turns: the first
// caller to come back with a new command after a large batch finds a slot free
// and takes it alone, and everybody else waits for an entry to end. Since the
// end of the entry under way lets anything go, nobody waits longer than that
// for company.
type pace struct {
	underway int    // entries
	last     [2]int // commands in the last two
}

func (p *pace) worth(n int) bool { return p.underway == 0 || 2*n >= p.last[0]+p.last[1] }

// left notes that an entry of n commands is on its way.
func (p *pace) left(n int) { p.underway, p.last = p.underway+1, [2]int{p.last[1], n} }

// send forms batches: it takes a slot first, so that a batch holds whatever has
// gathered by the time that it can leave.
func (b *Batcher) send() {
	defer close(b.inflight)
	step := b.opts.Progress.Step("propose")
	defer b.opts.Progress.Remove(step)
	for {
		select {
		case b.slots <- struct{}{}:
		case <-b.done:
			return
		}
		calls, ok := b.gather()
		if !ok {
			return
		}
		step.Begin()
		batch := b.batch(calls)
		faultpoint.Hit(faultpoint.BatchProposed)
		proposed := b.opts.Clock()                                              // before the log can know of it: the lease counts from here
		b.inflight <- flight{proposed, time.Now(), calls, b.opts.Submit(batch)} // which has room for all slots
		step.End()
	}
}

// batch is that of the calls, and behind their commands what the log is due.
// Nobody waits for the result of that one.
func (b *Batcher) batch(calls []*call) state.Batch {
	out := state.Batch{Epoch: b.opts.Epoch, LeaseMS: b.opts.LeaseMS}
	due, isDue := b.opts.Due()
	if len(calls) == 0 && !isDue {
		return out
	}
	out.Commands = make([]state.Command, len(calls), len(calls)+1)
	for i, c := range calls {
		out.Commands[i] = c.cmd
	}
	if isDue {
		out.Commands = append(out.Commands, due)
	}
	return out
}

// gather waits for something worth an entry and takes as much as one batch
// holds.
func (b *Batcher) gather() ([]*call, bool) {
	for {
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			return nil, false
		}
		n := b.fits()
		more := n < len(b.pending)
		if b.renew || more || (n > 0 && b.pace.worth(n)) {
			calls := b.pending[:n:n]
			b.pending = b.pending[n:]
			b.renew = false
			b.pace.left(n)
			b.mu.Unlock()
			if more {
				b.wakeup.Wake()
			}
			return calls, true
		}
		b.mu.Unlock()
		select {
		case <-b.wakeup:
		case <-b.done:
		}
	}
}

// fits counts how many of the pending commands go into one batch.
func (b *Batcher) fits() int {
	size := 0
	for i, c := range b.pending {
		size += c.cmd.Size()
		if i == maxBatchCommands || (i > 0 && size > membership.MaxBatchBytes) {
			return i
		}
	}
	return len(b.pending)
}

// arrived notes that an entry is no longer under way.
func (b *Batcher) arrived() {
	b.mu.Lock()
	b.pace.underway--
	b.mu.Unlock()
	<-b.slots
	b.wakeup.Wake()
}
