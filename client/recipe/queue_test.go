package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
	"github.com/stoutlock/stout/client/stouttest"
)

// record counts, by job, the workers that are doing it and have done it.
type record struct {
	mu    sync.Mutex // guards what follows
	doing map[string]int
	done  map[string]int
}

func (r *record) begin(t *testing.T, job string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.doing[job]++; r.doing[job] > 1 {
		t.Errorf("two workers do %s at a time", job)
	}
}

func (r *record) end(job string, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doing[job]--
	if done {
		r.done[job]++
	}
}

// count returns how many jobs are done.
func (r *record) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.done)
}

// TestQueue: workers die, fail and are cut off, and masters are killed. Each
// job is still done, by one worker at a time, and only once by workers that
// obey their context.
func TestQueue(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, dir := bounded(t), "/t/"
		q, err := recipe.NewQueue(dir)
		must(t, err)
		const jobs = 30
		adder := session(t, c, c.Client(), "adder")
		for i := range jobs {
			must(t, second(q.Add(ctx, adder, fmt.Appendf(nil, "job %d", i))))
		}
		r := &record{doing: make(map[string]int), done: make(map[string]int)}
		hanging := make(chan string, 1)
		working, stop := context.WithCancel(ctx)
		var workers sync.WaitGroup
		work := func(name string, do func(context.Context, recipe.Job) error) *client.Client {
			m := c.Client()
			workers.Go(func() {
				err := q.Work(working, m, func(ctx context.Context, job recipe.Job) error {
					r.begin(t, string(job.Content))
					err := do(ctx, job)
					r.end(string(job.Content), err == nil)
					return err
				}, client.TTL(ttl), client.Name(name))
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s ended with %v", name, err)
				}
			})
			return m
		}
		victim := work("victim", func(ctx context.Context, job recipe.Job) error {
			hanging <- string(job.Content)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		receive(t, hanging, "the victim has a job", func(string) bool { return true })
		var failures sync.Map
		for i := range 3 {
			work(fmt.Sprint("w", i), func(ctx context.Context, job recipe.Job) error {
				time.Sleep(20 * time.Millisecond) // the job's duration
				if _, failed := failures.LoadOrStore(job.Name, true); !failed && i == 0 {
					return errors.New("not this time")
				}
				return nil
			})
		}
		c.Cut(victim)
		c.KillMaster()
		c.IsolateMaster()
		for r.count() < jobs {
			pause(t, ctx, "all jobs are done")
		}
		// The last job leaves the queue shortly after it is done.
		for left := 1; left > 0; pause(t, ctx, "the queue is empty") {
			left = 0
			for _, err := range adder.Client().List(ctx, dir) {
				must(t, err)
				left++
			}
		}
		stop()
		c.Mend(victim)
		workers.Wait()
		for job, n := range r.done {
			if n != 1 {
				t.Errorf("%s was done %d times", job, n)
			}
		}
	})
}

// TestEachPeriod: one machine does the job of each period, and none is done
// twice, though machines and a master die.
func TestEachPeriod(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, path := bounded(t), "/t"
		const period = time.Second
		done := make(chan time.Time, 100)
		running, stop := context.WithCancel(ctx)
		var machines sync.WaitGroup
		var all []*client.Client
		for i := range 3 {
			m := c.Client()
			all = append(all, m)
			machines.Go(func() {
				err := recipe.EachPeriod(running, m, path, period, func(ctx context.Context, begins time.Time, held *client.Held) error {
					done <- begins
					return nil
				}, client.TTL(ttl))
				if !errors.Is(err, context.Canceled) {
					t.Errorf("m%d ended with %v", i, err)
				}
			})
		}
		next := func() time.Time { return receive(t, done, "a job is done", func(time.Time) bool { return true }) }
		last := next()
		for i := range 4 {
			switch i {
			case 1:
				c.Cut(all[0])
			case 2:
				c.KillMaster()
			}
			begins := next()
			if !begins.After(last) || begins.Truncate(period) != begins {
				t.Errorf("the period of %v was done after that of %v", begins, last)
			}
			last = begins
		}
		stop()
		c.Mend(all[0])
		machines.Wait()
	})
}

// pause waits for a moment, and fails the test if ctx ends first.
func pause(t *testing.T, ctx context.Context, what string) {
	t.Helper()
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
		t.Fatalf("%s: this did not happen", what)
	}
}
