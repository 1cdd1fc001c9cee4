package replica

import "github.com/stoutlock/stout/replica/state"

// Bounds of a batch, and how many of them are under way at once. With two, one
// is on the leader's disk while the other is on the followers'.
const (
	maxBatchCommands = 128
	maxBatchBytes    = 256 << 10
	batchesInFlight  = 2
)

// maxAppendEntries bounds the entries of one message to a follower. An entry is a
// whole batch, and a message has rpcTimeout to arrive.
const maxAppendEntries = 16

// maxEntryBytes bounds an entry as it is encoded. A batch has less, also with its
// encoding and a checksum that rides along. It is refused before it is in the log:
// followers close the connection on which more comes than they know to be sent.
const maxEntryBytes = maxBatchBytes + 64<<10

// mostUncommitted is how many entries a leader leaves that were not committed: the
// batches in flight, its no-op, a barrier, the opening and the closing of an office,
// and a change of the members.
const mostUncommitted = batchesInFlight + 5

// A message has room for twice as many. Entries that were never committed stay in a
// log before a snapshot that was installed behind them, and a message that ends among
// them would have them committed. What guards against that is gap; this keeps it rare:
// a message that begins with them reaches beyond. Whoever raises batchesInFlight has to
// raise maxAppendEntries; else this does not compile.
const _ uint = maxAppendEntries - 2*mostUncommitted

// pace says when what has gathered is worth an entry: when no entry is under way,
// or when it is half of what the last two held together.
//
// Without the second condition large and tiny batches take turns: the first caller
// to come back with a new command after a large batch finds a slot free and takes
// it alone, and everybody else waits for an entry to end. Since the end of the
// entry under way lets anything go, nobody waits longer than that for company.
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
		batch := state.Batch{Epoch: b.opts.Epoch, LeaseMS: b.opts.LeaseMS}
		if len(calls) > 0 {
			batch.Commands = make([]state.Command, len(calls))
			for i, c := range calls {
				batch.Commands[i] = c.cmd
			}
		}
		proposed := b.opts.Clock() // before the log can know of it: the lease counts from here
		b.inflight <- flight{proposed, calls, b.opts.Submit(batch)}
	}
}

// gather waits for something worth an entry and takes as much as one batch holds.
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
				b.nudge()
			}
			return calls, true
		}
		b.mu.Unlock()
		select {
		case <-b.wake:
		case <-b.done:
		}
	}
}

// fits counts how many of the pending commands go into one batch.
func (b *Batcher) fits() int {
	size := 0
	for i, c := range b.pending {
		size += c.cmd.Size()
		if i == maxBatchCommands || (i > 0 && size > maxBatchBytes) {
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
	b.nudge()
}
