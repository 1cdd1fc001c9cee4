package master

import (
	"context"
	"sync"
	"time"

	"github.com/stoutlock/stout/internal/progress"
)

// every calls a function once in each interval until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}

// lookForHangs ends the office if one of its steps hangs for longer than the
// lease's term: a write to the log, an entry being applied, an answer, a mutex.
// It takes no mutex itself. The same watch mutes the replica, so that the
// others elect a master even if everything here hangs.
func (m *Master) lookForHangs(term time.Duration) {
	h := m.opts.Progress.Hangs(term)
	if h == nil {
		m.hanging.Store(nil)
		return
	}
	o := m.watched.Swap(nil)
	if o == nil {
		return
	}
	select {
	case <-o.done:
		return
	default:
	}
	m.hanging.Store(h)
	m.vitals.resignedFor(h.Step)
	o.lease.Drop()
	go o.end(h) // which may hang as well
}

// Hangs returns an error while a step hangs that ended this replica's office,
// or that has hung for so long that the replica is useless. It takes no mutex.
func (m *Master) Hangs() error {
	h := m.opts.Progress.Hangs(stalledAfter)
	if m.hanging.Load() != nil {
		h = m.opts.Progress.Hangs(m.opts.LeaseTerm)
	}
	if h == nil {
		return nil
	}
	return h
}

// tryMutexes locks and unlocks the mutexes that calls use, again and again. It
// hangs if one of them stays locked.
func (m *Master) tryMutexes(ctx context.Context, term time.Duration) {
	step := m.opts.Progress.Step("mutex")
	defer m.opts.Progress.Remove(step)
	every(ctx, term/4, func() { m.tryAll(step) })
}

func (m *Master) tryAll(step *progress.Step) {
	step.Begin()
	defer step.End()
	m.mu.Lock()
	o := m.office
	m.mu.Unlock()
	if o == nil {
		return
	}
	for _, mu := range []sync.Locker{&o.mu, o.quotas.Mutex(), &o.endings.mu, &o.deletions.mu, &o.turns.mu, o.batcher.Mutex()} {
		mu.Lock()
		mu.Unlock() //lint:ignore SA2001 only the locking matters
	}
}
