package recipe_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
	"github.com/stoutlock/stout/client/stouttest"
)

// moving is a fleet of programs that take a lock in an old cell, a new one, or both,
// as docs/migrating.md describes.
type moving struct {
	before, after *stouttest.Cell
	working, most atomic.Int32
	done          [3]atomic.Int32 // by version
	longest       time.Duration   // of the work of a hold
}

// program is one of the fleet, with a client of each cell.
type program struct {
	*moving
	old, new *client.Client
}

// run is a version of the program, until ctx ends or its work is done once.
func (p *program) run(ctx context.Context, version int) {
	hold := func(ctx context.Context, c *client.Client, work func(context.Context)) {
		_ = recipe.Hold(ctx, c, "/moving", func(ctx context.Context, _ *client.Held) error {
			work(ctx)
			return nil
		}, client.TTL(5*time.Second))
	}
	work := func(ctx context.Context) {
		if ctx.Err() != nil {
			return
		}
		now := p.working.Add(1)
		p.most.Store(max(now, p.most.Load()))
		p.done[version].Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(rand.N(p.longest)):
		}
		p.working.Add(-1)
	}
	switch version {
	case 0:
		hold(ctx, p.old, work)
	case 1:
		hold(ctx, p.old, func(ctx context.Context) { hold(ctx, p.new, work) })
	case 2:
		hold(ctx, p.new, work)
	}
}

// fleet runs programs, each with a list of versions one after the other, while clients
// are cut off and masters die.
func (m *moving) fleet(t *testing.T, programs [][]int) {
	const term = 45 * time.Second
	faults, stop := context.WithCancel(t.Context())
	var running, harm sync.WaitGroup
	for i, versions := range programs {
		p := &program{m, m.before.Client(), m.after.Client()}
		running.Go(func() {
			for j, version := range versions {
				lasts := term
				if j == 0 {
					lasts += time.Duration(i) * term / 5 // the programs change one after the other
				}
				ctx, stop := context.WithTimeout(t.Context(), lasts)
				for ctx.Err() == nil {
					p.run(ctx, version)
				}
				stop()
			}
		})
		harm.Go(func() {
			for faults.Err() == nil {
				sleep(faults, 5*time.Second+rand.N(25*time.Second))
				cell, c := m.before, p.old
				if rand.N(2) == 0 {
					cell, c = m.after, p.new
				}
				cell.Cut(c)
				sleep(faults, 7*time.Second)
				cell.Mend(c)
			}
		})
	}
	harm.Go(func() {
		for faults.Err() == nil {
			sleep(faults, 20*time.Second)
			m.before.KillMaster()
			m.after.KillMaster()
		}
	})
	running.Wait()
	stop()
	harm.Wait()
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func newMoving(t *testing.T) *moving {
	return &moving{before: stouttest.New(t, stouttest.Options{}), after: stouttest.New(t, stouttest.Options{}), longest: 8 * time.Second}
}

// TestMovingALock: the programs go from the old lock, over both, to the new one, and one
// works at a time.
func TestMovingALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(t)
		m.fleet(t, [][]int{{0, 1, 2}, {0, 1, 2}, {0, 1, 2}})
		wantEqual(t, "programs worked at a time", m.most.Load(), 1)
		for version := range m.done {
			if m.done[version].Load() == 0 {
				t.Errorf("version %c never worked", 'A'+version)
			}
		}
	})
}

// TestMovingALockStops: a program with both locks is cut off from the old cell. It stops
// before a program that takes only the old lock gets it.
func TestMovingALockStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(t)
		m.longest = time.Hour
		both, old := &program{m, m.before.Client(), m.after.Client()}, &program{m, m.before.Client(), m.after.Client()}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { both.run(ctx, 1) })
		time.Sleep(5 * time.Second)
		running.Go(func() { old.run(ctx, 0) })
		m.before.Cut(both.old)
		time.Sleep(20 * time.Second)
		if m.done[1].Load() != 1 || m.done[0].Load() != 1 || m.most.Load() != 1 {
			t.Errorf("both locks: %d times, the old one: %d, at a time: %d", m.done[1].Load(), m.done[0].Load(), m.most.Load())
		}
		m.before.Mend(both.old)
		stop()
		running.Wait()
	})
}

// TestMovingALockTooFast: the first and the last version do not exclude each other.
func TestMovingALockTooFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(t)
		m.fleet(t, [][]int{{0}, {2}})
		wantEqual(t, "programs worked at a time", m.most.Load(), 2)
	})
}
