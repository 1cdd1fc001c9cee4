package batch

import (
	"time"

	"github.com/stoutlock/stout/internal/faultpoint"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// maxBatchCommands bounds a batch, as does membership.MaxBatchBytes.
const maxBatchCommands = 128

// pace decides when the gathered commands are worth an entry: when no entry is
// under way, or when there are half as many as the last two entries held
// together.
//
// Without the second condition large and tiny batches alternate. The first
// caller that returns with a new command after a large batch would find a free
// slot and take it alone, and all others would wait for an entry to end. The
// end of the entry under way lets any number leave, so no command waits longer
// than that.
type pace struct {
	underway int    // entries
	last     [2]int // commands in the last two
}

func (p *pace) worth(n int) bool { return p.underway == 0 || 2*n >= p.last[0]+p.last[1] }

// left records that an entry of n commands is on its way.
func (p *pace) left(n int) { p.underway, p.last = p.underway+1, [2]int{p.last[1], n} }

// send forms batches. It takes a slot first, so that a batch holds everything
// that has gathered by the time it can leave.
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

// batch returns the batch of the calls, with the log's own command at its end
// if one is due. No caller waits for the result of that command.
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

// gather waits until the commands are worth an entry, and takes as many as one
// batch holds.
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

// fits counts how many of the pending commands fit into one batch.
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

// arrived records that an entry is no longer under way.
func (b *Batcher) arrived() {
	b.mu.Lock()
	b.pace.underway--
	b.mu.Unlock()
	<-b.slots
	b.wakeup.Wake()
}
