package master

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A master is unfit if its own disk is slow or hangs, if it keeps losing its
// lease, or if it cannot send a snapshot that a member needs. Such a master
// still answers some calls, so no other mechanism ends its office. It hands
// over only if that helps: a majority without it answers, is up to date and has
// fast disks. So it stays in office when all disks are slow, or when too many
// other replicas have failed.
//
// The bounds are fractions of the lease's term. A disk is slow compared with
// the term and with the other replicas.
const (
	slowDisk       = "slow_disk"
	lostLease      = "lease"
	unsentSnapshot = "snapshot"

	slowPart   = 8  // of the term: the median of a slow disk's writes
	hangPart   = 4  // of the term: a write under way that may never end
	slower     = 4  // how many times slower than the successor's an unfit disk is
	mostLapses = 3  // of the lease
	lately     = 40 // terms within which these lapses count
	unsentFor  = 4  // terms for which snapshots have failed
	staleAfter = 8  // terms after the last failure: the member no longer needs one
	drainPart  = 8  // of the term: how long to wait for calls under way, and for the closing entry
)

// unfit is the reason why a master is unfit.
type unfit struct {
	reason, found, cure string
	sync                time.Duration // duration of a write to its disk, if that is the reason
}

// fitness is what one office has measured of its own replica.
type fitness struct {
	term   time.Duration
	lapses []time.Duration // when they were noticed, the last ones
	lapsed uint64          // their number, in all
	unsent uint64          // consecutive snapshots that could not be sent, at the last measurement
	since  time.Duration   // when the first of them was noticed
	last   time.Duration   // and the last
}

// note records a measurement: how often the lease has lapsed, and how many
// snapshots in a row could not be sent.
func (f *fitness) note(now time.Duration, lapsed, unsent uint64) {
	for ; f.lapsed < lapsed; f.lapsed++ {
		f.lapses = append(f.lapses, now)
	}
	f.lapses = f.lapses[max(0, len(f.lapses)-mostLapses):]
	switch {
	case unsent == f.unsent:
	case unsent < f.unsent || f.unsent == 0 || now-f.last > staleAfter*f.term:
		f.since, f.last = now, now
	default:
		f.last = now
	}
	f.unsent = unsent
}

// unfit returns why this replica is unfit for its office now, or nil. sync is
// how long a write to its disk takes, and writing how long the present write
// has taken.
func (f *fitness) unfit(now, sync, writing time.Duration) *unfit {
	const disk = "look at the disk of this replica, and at what else uses it"
	switch {
	case writing > f.term/hangPart:
		return &unfit{slowDisk, fmt.Sprintf("a write to its disk has not ended for %v", round(writing)), disk, writing}
	case sync > f.term/slowPart:
		return &unfit{slowDisk, fmt.Sprintf("a write to its disk takes %v", round(sync)), disk, sync}
	case len(f.lapses) == mostLapses && now-f.lapses[0] < lately*f.term && now-f.lapses[mostLapses-1] < f.term:
		return &unfit{lostLease, fmt.Sprintf("its lease has lapsed %d times in %v", mostLapses, round(now-f.lapses[0])),
			"look at the CPU, the disk and the network of this replica", 0}
	case f.unsent > 2 && now-f.last < staleAfter*f.term && f.last-f.since >= unsentFor*f.term:
		return &unfit{unsentSnapshot, fmt.Sprintf("it could not send a snapshot that a member needs, for %v", round(f.last-f.since)),
			"look at the directory snapshots in the data-dir of this replica, and at its network", 0}
	}
	return nil
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// rest keeps a replica from giving up its offices again and again. Each pause
// is twice as long as the previous one, unless that was long ago.
type rest struct {
	mu    sync.Mutex
	until time.Duration
	pause time.Duration
}

// Bounds of the pause.
const (
	firstRest   = 10 * time.Second
	longestRest = 10 * time.Minute
)

func (r *rest) over(now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now >= r.until
}

func (r *rest) begin(now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now > r.until+3*r.pause {
		r.pause = 0
	}
	r.pause = min(max(firstRest, 2*r.pause), longestRest)
	r.until = now + r.pause
}

// keepFit hands the office over when this replica is unfit for it and another
// one is fit. It returns when the office ends.
func (m *Master) keepFit(ctx context.Context, o *office) {
	term := m.opts.LeaseTerm
	f := fitness{term: term}
	tick := time.NewTicker(max(term/16, time.Millisecond))
	defer tick.Stop()
	for next := time.Duration(0); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := m.opts.Clock()
		why := m.lookAtFitness(ctx, o, &f)
		if why == nil || now < next || !m.rest.over(now) {
			continue
		}
		next = now + term/4 // how often the others are polled
		if to := m.successorFor(ctx, why); to != "" && m.inOffice() == o {
			m.yield(o, to, why)
			return
		}
	}
}

// lookAtFitness returns why this replica is unfit, or nil.
func (m *Master) lookAtFitness(ctx context.Context, o *office, f *fitness) *unfit {
	card, err := m.members.Ask(ctx, m.opts.ID)
	if err != nil {
		return nil
	}
	now := m.opts.Clock()
	f.note(now, o.lapses.Load(), card.Unsent)
	return f.unfit(now, time.Duration(card.Sync)*time.Microsecond, time.Duration(card.Writing)*time.Microsecond)
}

// successorFor polls the others, for half a term, and returns the member that
// should take this replica's office, or empty.
func (m *Master) successorFor(ctx context.Context, why *unfit) string {
	ctx, cancel := context.WithTimeout(ctx, m.opts.LeaseTerm/2)
	defer cancel()
	seen, err := m.table.Ask(ctx)
	if err != nil {
		return ""
	}
	write := m.opts.LeaseTerm / slowPart
	if why.sync > 0 {
		write = min(write, why.sync/slower)
	}
	return seen.Candidate(m.opts.ID, write, why.reason == unsentSnapshot)
}

// yield hands the office over.
func (m *Master) yield(o *office, to string, why *unfit) {
	now, ok := m.beginHandover()
	if !ok {
		return
	}
	defer m.endHandover()
	if now != o { // it has ended, or another one is open
		return
	}
	m.rest.begin(m.opts.Clock())
	m.vitals.resignedFor(why.reason)
	o.logger.Warn().Str("reason", why.reason).Str("to", to).Str("found", why.found).Str("cure", why.cure).
		Msg("this replica is unfit to be the master, and another one is fit: it hands mastership over")
	ctx, cancel := context.WithTimeout(context.Background(), successorBound)
	defer cancel()
	_ = m.handover(ctx, o, to, m.opts.LeaseTerm/drainPart) // logged; if it fails an office opens here again
}
