package replica

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/stoutlock/stout/internal/throttle"
	"github.com/stoutlock/stout/replica/state"
)

// Checksums of the state go through the log, as in "Paxos Made Live" (section
// 5.1): a replica whose state has come to differ from its peers', by a fault of
// memory, of a disk or of a release, is found within seconds and ends.
//
// A mark in the log names an entry. Every replica that applies it sums the
// state there; states are immutable, so that this is done beside the work and
// stalls nothing. The master then tells its own sum in a second entry, and
// every replica that applies that one compares. Both ride on batches that the
// master proposes anyway (it proposes one every quarter of its lease), so that
// they cost no entry of their own, and neither leaves a trace in the state.
//
//   - A replica that has no sum of the marked entry (it restarted in between,
//     restored a snapshot that is later, or was still summing an earlier state
//     when two more marks came) has nothing to compare, and compares the next.
//   - Where the office changes between the two entries, the successor, which
//     applied the mark as well, tells its own sum.
//   - Sums in entries that a replica had stored before it started are not
//     compared: they were once already.
//   - The master's word counts. One replica that differs is one that ends. If it
//     is the master that differs, the others end, it loses its majority and with
//     it the lease, and nobody serves: see package datadir, quarantineFile.
const (
	// checksumEvery is the least time between two marks.
	checksumEvery = 5 * time.Second
	// checksumShare bounds what summing costs: its share of the time is one in so
	// many.
	checksumShare = 100
	// tellAfter is the time from a mark to the telling of its sum. Others sum
	// meanwhile. It is more than it takes, as a rule; a sum that is not ready is
	// told when it is.
	tellAfter = time.Second
)

// Checksum is the SHA-256 of the state after a log entry; see state.Hash.
type Checksum struct {
	Index uint64
	Sum   [sha256.Size]byte
}

// checksums makes and compares the sums of one replica. Its methods are called
// by the library's FSM goroutine (note), by whoever proposes (due) and by
// anyone else (latest).
type checksums struct {
	clock   func() time.Duration
	differs func(own, told Checksum) // called at most once per mark
	before  uint64                   // told sums in entries up to this one are not compared
	every   time.Duration
	tell    time.Duration
	work    sync.WaitGroup

	mu     sync.Mutex
	now    *mark // the latest that was, or is being, summed
	next   *mark // waits for it to be done; a later one takes its place
	done   *Checksum
	marked time.Duration // when a mark was last applied or proposed here
	took   time.Duration // by the latest sum, without its rests
	told   uint64        // highest index of which a sum was applied or proposed here
}

// mark is a marked entry.
type mark struct {
	state *state.State // after the entry; nil once summed
	index uint64
	at    time.Duration
	sum   *Checksum // this replica's
	told  *Checksum // the master's
}

func newChecksums(clock func() time.Duration, differs func(own, told Checksum)) *checksums {
	return &checksums{clock: clock, differs: differs, every: checksumEvery, tell: tellAfter, marked: clock()}
}

// note takes note of an entry that was applied, s being the state after it.
func (c *checksums) note(s *state.State, out *state.Outcome) {
	for _, change := range out.Changes {
		switch told := change.(type) {
		case state.Marked:
			c.mark(s)
		case state.SumReported:
			c.compare(out.Index, Checksum{Index: told.Entry, Sum: told.Sum})
		}
	}
}

func (c *checksums) mark(s *state.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &mark{state: s, index: s.Index, at: c.clock()}
	c.marked = m.at
	if c.now != nil && c.now.sum == nil {
		c.next = m
		return
	}
	c.now = m
	c.work.Go(func() { c.sum(m) })
}

// sum sums a marked state, and then those that were marked meanwhile.
func (c *checksums) sum(m *mark) {
	for m != nil {
		began := c.clock()
		sum, rested := throttledSum(m.state)
		m = c.summed(m, sum, c.clock()-began-rested)
	}
}

// throttledSum is the state's Hash, with rests, and how long they were.
func throttledSum(s *state.State) (sum [sha256.Size]byte, rested time.Duration) {
	h := sha256.New()
	g := throttle.NewWriter(h)
	if err := s.Snapshot(g); err != nil {
		panic(err) // a hash cannot fail to be written to, and every state can be encoded
	}
	return [sha256.Size]byte(h.Sum(nil)), g.Rested()
}

// summed notes the sum of a mark and returns the next one to be summed.
func (c *checksums) summed(m *mark, sum [sha256.Size]byte, took time.Duration) *mark {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.sum, m.state, c.took = &Checksum{m.index, sum}, nil, took
	c.done = m.sum
	c.compareMark(m)
	if c.next == nil {
		return nil
	}
	c.now, c.next = c.next, nil
	return c.now
}

// compare takes the master's sum, told in the entry at index.
func (c *checksums) compare(index uint64, told Checksum) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = max(c.told, told.Index)
	if index <= c.before {
		return
	}
	for _, m := range []*mark{c.now, c.next} {
		if m != nil && m.index == told.Index {
			m.told = &told
			c.compareMark(m)
		}
	}
}

// compareMark compares the two sums of a mark once both are there. c.mu is held.
func (c *checksums) compareMark(m *mark) {
	if m.sum != nil && m.told != nil && *m.sum != *m.told {
		c.differs(*m.sum, *m.told)
	}
}

// due is what a batch of the master is to bring, if anything: a mark, or the
// sum of one. Whoever asks proposes it; it is told once.
func (c *checksums) due() (state.Command, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, m := c.clock(), c.now
	if m != nil && m.sum == nil {
		return state.Command{}, false
	}
	if m != nil && c.told < m.index && now-m.at >= c.tell {
		c.told = m.index
		return state.Command{Operation: &state.ReportSum{Entry: m.index, Sum: m.sum.Sum[:]}}, true
	}
	if now-c.marked >= max(c.every, checksumShare*c.took) {
		c.marked = now
		return state.Command{Operation: &state.MarkState{}}, true
	}
	return state.Command{}, false
}

func (c *checksums) latest() (Checksum, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		return Checksum{}, false
	}
	return *c.done, true
}

// Checksum is the sum of this replica's state at the last entry that was marked
// to be summed; false before the first.
func (r *Replica) Checksum() (Checksum, bool) { return r.fsm.sums.latest() }

// Due is a command that this replica wants in the master's next batch: see
// checksums. The master asks before each batch of commands or renewal, and not
// for those that open and close an office.
func (r *Replica) Due() (state.Command, bool) { return r.fsm.sums.due() }

// diverged ends the replica: its state is not its master's. What it would serve
// would be wrong, as would be what it would found an office on, so its data
// directory is not opened again.
func (r *Replica) diverged(own, told Checksum) {
	err := fmt.Errorf("the state after log entry %d has checksum %x here and %x at the master: this replica's memory or data directory is damaged, or the replicas run releases that differ. "+
		"It ends, and its data directory %s will not be opened again: keep it for analysis, and bring the replica back with an empty one as docs/operations.md says. "+
		"If every replica but the master tells the same checksum of its own, it is the master that is damaged", own.Index, own.Sum, told.Sum, r.opts.DataDir)
	if r.stores.Quarantine != nil {
		if failed := r.stores.Quarantine(err.Error()); failed != nil {
			err = fmt.Errorf("%w (this could not be noted in it: %w)", err, failed)
		}
	}
	r.fail(err)
}
