package lease

import (
	"sync"
	"time"
)

// Promises is a replica's memory of what it promised by storing batches: the
// instants from which a later master must count its wait. It is kept in memory
// only; a replica that starts knows nothing and counts from its start. It is
// safe for concurrent use, but the instants must be recorded on Raft's own
// goroutine, after the store has returned and before Raft continues.
type Promises struct {
	mu      sync.Mutex
	term    uint64        // highest raft term of a stored batch; 0 before the first
	at      time.Duration // when a batch of that term was last stored, or the start
	earlier time.Duration // latest of: start, restore, batches of lower terms
}

// NewPromises returns the memory of a replica that starts at now.
func NewPromises(now time.Duration) *Promises { return &Promises{at: now, earlier: now} }

// Stored records that a batch of the given raft term was stored. Entries
// without a batch make no lease and are not recorded.
func (p *Promises) Stored(term uint64, now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case term < p.term:
		// An entry of a lower term replaced a suffix that was never
		// committed.
		p.earlier = max(p.earlier, now)
	case term == p.term:
		p.at = max(p.at, now)
	default:
		p.earlier = max(p.earlier, p.at)
		p.term, p.at = term, now
	}
}

// Restored records that the state was replaced by a snapshot, which may hold
// the batches of any term.
func (p *Promises) Restored(now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.earlier = max(p.earlier, now)
}

// Before returns the instant r from which a master of the given raft term
// counts: the last time that this replica stored a batch of an earlier term,
// restored a snapshot, or started. Batches of the term itself do not count:
// counting them would cost a whole lease at each fail-over.
func (p *Promises) Before(term uint64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.term < term {
		return max(p.earlier, p.at)
	}
	return p.earlier
}

// Last returns when the latest promise to any master was made.
func (p *Promises) Last() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.earlier, p.at)
}
