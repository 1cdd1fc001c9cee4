package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/client/recipe"
	"github.com/stoutlock/stout/test/cell"
)

// The recipes' own tests use an in-memory cell. These two repeat the main
// results with real replicas.

// loseMasters kills one master and isolates another, with steps in between.
func loseMasters(t *testing.T, c *cell.Cell, between func()) {
	t.Helper()
	old := c.Ready(t)
	must(t, old.Kill())
	newMaster(t, c, old)
	must(t, old.Start())
	between()
	old = c.Ready(t)
	c.Network().Isolate(old.ID)
	newMaster(t, c, old)
	c.Network().Heal()
	c.Ready(t)
}

// TestElectionOverMasters: across kills and cuts of masters, one candidate
// leads at a time, with a growing token. An operator releases the lock, and
// later ends the session, of a leader: the next candidate leads, at the same
// time as the old one until that one has been notified.
func TestElectionOverMasters(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm, Network: true})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const path = "/leader"
	var leading, most atomic.Int32
	most.Store(1)
	terms := make(chan *recipe.Leadership)
	var candidates sync.WaitGroup
	for range 3 {
		sdk, err := client.New(c.URLs()...)
		must(t, err)
		candidates.Go(func() {
			err := recipe.Lead(ctx, sdk, path, []byte("here"), recipe.Callbacks{Started: func(ctx context.Context, l *recipe.Leadership) error {
				defer leading.Add(-1)
				if n := leading.Add(1); n > most.Load() {
					t.Errorf("%d lead at a time", n)
				}
				select {
				case terms <- l:
					<-ctx.Done()
				case <-ctx.Done():
				}
				return ctx.Err()
			}}, client.TTL(aWhile))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Lead returned %v", err)
			}
		})
	}
	var last uint64
	next := func() *recipe.Leadership {
		t.Helper()
		select {
		case l := <-terms:
			if l.Token() <= last {
				t.Errorf("token %d after %d", l.Token(), last)
			}
			last = l.Token()
			return l
		case <-cell.Bounded(t).Done():
			t.Fatal("no candidate leads")
			return nil
		}
	}
	operator, err := client.New(c.URLs()...)
	must(t, err)
	takeAway := func(take func(holder string) error) {
		t.Helper()
		lock, err := operator.ReadLock(cell.Bounded(t), path)
		must(t, err)
		most.Store(2)
		must(t, take(lock.Holders[0].Session))
		next()
		must(t, cell.Wait(cell.Bounded(t), "the old leader has stopped", func(context.Context) error {
			if n := leading.Load(); n > 1 {
				return fmt.Errorf("%d lead", n)
			}
			return nil
		}))
		most.Store(1)
	}
	first := next()
	loseMasters(t, c, func() {
		takeAway(func(holder string) error {
			_, err := admin.New(operator).Release(cell.Bounded(t), path, holder, first.Held().Handle(), first.Token())
			return err
		})
	})
	takeAway(func(holder string) error { return admin.New(operator).KillSession(cell.Bounded(t), holder) })
	stop()
	candidates.Wait()
}

// TestQueueOverMasters: across kills and cuts of masters, each job is done
// once, by one worker at a time.
func TestQueueOverMasters(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm, Network: true})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	q, err := recipe.NewQueue("/q/")
	must(t, err)
	adder := sdkSession(t, c)
	var mu sync.Mutex // guards done
	done := map[string]int{}
	var workers sync.WaitGroup
	for range 3 {
		s := sdkSession(t, c)
		workers.Go(func() {
			err := q.Work(ctx, s.Client(), func(_ context.Context, job recipe.Job) error {
				mu.Lock()
				defer mu.Unlock()
				done[string(job.Content)]++
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Work returned %v", err)
			}
		})
	}
	jobs := 0
	add := func() {
		for range 10 {
			_, err := q.Add(cell.Bounded(t), adder, fmt.Appendf(nil, "job %d", jobs))
			must(t, err)
			jobs++
		}
	}
	add()
	loseMasters(t, c, add)
	add()
	must(t, cell.Wait(cell.Bounded(t), "the queue is empty", func(ctx context.Context) error {
		for file, err := range adder.Client().List(ctx, "/q/") {
			return errors.Join(err, fmt.Errorf("%s is left", file.Path))
		}
		return nil
	}))
	stop()
	workers.Wait()
	if len(done) != jobs {
		t.Errorf("%d of %d jobs were done", len(done), jobs)
	}
	for job, n := range done {
		if n != 1 {
			t.Errorf("%s was done %d times", job, n)
		}
	}
}
