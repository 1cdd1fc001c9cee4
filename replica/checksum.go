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
// 5.1). A fault of memory, of a disk or of a release can make a replica's state
// differ from its peers'. Such a replica is found within seconds and ends.
//
//  1. A mark in the log names an entry. Every replica that applies the mark
//     sums its state there. States are immutable, so summing runs in the
//     background and stalls no work.
//  2. The master then reports its own sum in a second entry. Every replica that
//     applies that entry compares it with its own sum.
//  3. Both are commands in batches that the master proposes anyway, one every
//     quarter of its lease. They need no entry of their own, and do not change
//     the state.
//
// Some cases:
//
//   - A replica may have no sum of the marked entry: it restarted in between,
//     restored a later snapshot, or was still summing an earlier state when two
//     more marks came. It skips this comparison and makes the next one.
//   - If the office changes between the two entries, the successor reports its
//     own sum. It has applied the mark as well.
//   - Sums in entries that a replica had stored before it started are not
//     compared again.
//   - The master's sum counts. If one replica differs, that replica ends. If
//     the master itself differs, the others end; the master loses its majority
//     and with it the lease, and the cell stops serving: see package datadir,
//     quarantineFile.
const (
	// checksumEvery is the least time between two marks.
	checksumEvery = 5 * time.Second
	// checksumShare bounds the cost: summing takes at most 1/checksumShare of
	// the time.
	checksumShare = 100
	// reportAfter is the time from a mark until the master reports its sum. The
	// other replicas sum in that time; they usually need less. If the master
	// needs longer, it reports its sum later.
	reportAfter = time.Second
)

// Checksum is the SHA-256 of the state after a log entry; see state.Hash.
type Checksum struct {
	Index uint64
	Sum   [sha256.Size]byte
}

// checksums makes and compares the sums of one replica. The library's FSM
// goroutine calls note, the proposing goroutine calls due, and any goroutine
// may call latest.
type checksums struct {
	clock   func() time.Duration
	differs func(own, told Checksum) // called at most once per mark
	before  uint64                   // sums reported in entries up to this one are not compared
	every   time.Duration
	delay   time.Duration
	work    sync.WaitGroup

	mu       sync.Mutex
	now      *mark // the latest mark that was, or is being, summed
	next     *mark // waits until now is summed; a later mark replaces it
	done     *Checksum
	marked   time.Duration // when a mark was last applied or proposed here
	took     time.Duration // by the latest sum, without its pauses
	reported uint64        // highest index with a sum applied or proposed here
}

type mark struct {
	state   *state.State // after the entry; nil once summed
	index   uint64
	at      time.Duration
	sum     *Checksum // this replica's
	masters *Checksum // the master's
}

func newChecksums(clock func() time.Duration, differs func(own, told Checksum)) *checksums {
	return &checksums{clock: clock, differs: differs, every: checksumEvery, delay: reportAfter, marked: clock()}
}

// note handles the marks and sums of an applied entry; s is the state after it.
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

// sum sums a marked state, and then any states marked during that.
func (c *checksums) sum(m *mark) {
	for m != nil {
		began := c.clock()
		sum, rested := throttledSum(m.state)
		m = c.summed(m, sum, c.clock()-began-rested)
	}
}

// throttledSum returns the state's Hash, computed with pauses, and the total
// length of the pauses.
func throttledSum(s *state.State) (sum [sha256.Size]byte, rested time.Duration) {
	h := sha256.New()
	g := throttle.NewWriter(h)
	if err := s.Snapshot(g); err != nil {
		panic(err) // writing to a hash cannot fail, and every state can be encoded
	}
	return [sha256.Size]byte(h.Sum(nil)), g.Rested()
}

// summed records the sum of a mark and returns the next mark to be summed.
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

// compare records the master's sum, which the entry at index reported.
func (c *checksums) compare(index uint64, told Checksum) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reported = max(c.reported, told.Index)
	if index <= c.before {
		return
	}
	for _, m := range []*mark{c.now, c.next} {
		if m != nil && m.index == told.Index {
			m.masters = &told
			c.compareMark(m)
		}
	}
}

// compareMark compares the two sums of a mark once both are there. c.mu is
// held.
func (c *checksums) compareMark(m *mark) {
	if m.sum != nil && m.masters != nil && *m.sum != *m.masters {
		c.differs(*m.sum, *m.masters)
	}
}

// due returns what the master's next batch should carry, if anything: a mark,
// or the sum of one. The caller must propose it, for due returns each only
// once.
func (c *checksums) due() (state.Command, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, m := c.clock(), c.now
	if m != nil && m.sum == nil {
		return state.Command{}, false
	}
	if m != nil && c.reported < m.index && now-m.at >= c.delay {
		c.reported = m.index
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

// Checksum returns the sum of this replica's state at the last marked entry;
// false before the first.
func (r *Replica) Checksum() (Checksum, bool) { return r.fsm.sums.latest() }

// Due returns a command that this replica wants in the master's next batch: see
// checksums. The master asks before each batch of commands or renewal, but not
// before a batch that opens or closes an office.
func (r *Replica) Due() (state.Command, bool) { return r.fsm.sums.due() }

// diverged ends the replica, because its state differs from its master's. Its
// answers would be wrong, and so would an office founded on its state. So its
// data directory is quarantined.
func (r *Replica) diverged(own, told Checksum) {
	err := fmt.Errorf("the state after log entry %d has checksum %x here and %x at the master: this replica's memory or data directory is damaged, or the replicas run different releases. "+
		"It ends, and its data directory %s will not be opened again: keep it for analysis, and restart the replica with an empty one as docs/operations.md describes. "+
		"If all replicas but the master report the same checksum, the master is the damaged one", own.Index, own.Sum, told.Sum, r.opts.DataDir)
	if r.stores.Quarantine != nil {
		if failed := r.stores.Quarantine(err.Error()); failed != nil {
			err = fmt.Errorf("%w (recording this in the directory failed: %w)", err, failed)
		}
	}
	r.fail(err)
}
