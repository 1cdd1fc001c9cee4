package gocronstout_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/contrib/gocronstout"
	"github.com/stoutlock/stout/client/stouttest"
	_ "github.com/stoutlock/stout/internal/racebubble"
)

// machines run a job by schedulers of gocron, each with an offset of its clock.
type machines struct {
	t     *testing.T
	mu    sync.Mutex     // guards what follows
	runs  map[string]int // by the second in which they began
	by    map[int]int    // by machine
	began time.Time
}

func (m *machines) start(i int, option gocron.SchedulerOption, held func() *client.Held) {
	m.t.Helper()
	scheduler, err := gocron.NewScheduler(option)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = scheduler.Shutdown() })
	run := func() {
		if h := held(); h == nil || h.Err() != nil || h.Token() == 0 {
			m.t.Errorf("machine %d runs the job with the hold %v", i, h)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.runs[fmt.Sprint(time.Since(m.began).Round(10*time.Second))]++
		m.by[i]++
	}
	_, err = scheduler.NewJob(gocron.DurationJob(10*time.Second), gocron.NewTask(run), gocron.WithName("a/job"),
		gocron.WithStartAt(gocron.WithStartDateTime(m.began.Add(10*time.Second+time.Duration(i)*100*time.Millisecond))))
	if err != nil {
		m.t.Fatal(err)
	}
	scheduler.Start()
}

func newMachines(t *testing.T) *machines {
	return &machines{t: t, runs: make(map[string]int), by: make(map[int]int), began: time.Now()}
}

// expect checks that a job has run once in each period, n times.
func (m *machines) expect(n int) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.runs) != n {
		m.t.Errorf("the job has run in %d periods, not %d: %v by %v", len(m.runs), n, m.runs, m.by)
	}
	for at, runs := range m.runs {
		if runs != 1 {
			m.t.Errorf("at %s the job has run %d times: %v", at, runs, m.by)
		}
	}
}

// count returns how often a machine has run the job.
func (m *machines) count(i int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.by[i]
}

// TestLocker: of three machines with different clocks, one runs the job in each
// period, also while the master changes, and after the first machine is cut off.
func TestLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m := stouttest.New(t, stouttest.Options{}), newMachines(t)
		var clients []*client.Client
		for i := range 3 {
			of := c.Client()
			l, err := gocronstout.NewLocker(of, "/cron/", time.Second, client.TTL(5*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Mend(of); _ = l.Close(context.Background()) })
			clients = append(clients, of)
			m.start(i, gocron.WithDistributedLocker(l), func() *client.Held { return l.Held("a/job") })
		}
		time.Sleep(25 * time.Second)
		c.KillMaster()
		time.Sleep(20 * time.Second)
		m.expect(4)
		first := m.count(0)
		c.Cut(clients[0])
		time.Sleep(30 * time.Second)
		m.expect(7)
		if late := m.count(0) - first; first == 0 || late != 0 {
			t.Errorf("the first machine has run the job %d times, and after it was cut off %d times", first, late)
		}
		c.Mend(clients[0])
		time.Sleep(20 * time.Second)
		m.expect(9)
	})
}

// TestElector: one of three schedulers makes all runs. Another one follows when
// it is cut off, and when it closes its elector.
func TestElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m := stouttest.New(t, stouttest.Options{}), newMachines(t)
		var clients []*client.Client
		var electors []*gocronstout.Elector
		for i := range 3 {
			of := c.Client()
			e, err := gocronstout.NewElector(of, "/cron/leader", client.TTL(5*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Mend(of); e.Close() })
			clients, electors = append(clients, of), append(electors, e)
			m.start(i, gocron.WithDistributedElector(e), e.Held)
		}
		leader := func() (leads int) {
			t.Helper()
			leads = -1
			for i, e := range electors {
				switch err := e.IsLeader(t.Context()); {
				case err == nil && leads < 0:
					leads = i
				case err == nil:
					t.Errorf("%d and %d lead", leads, i)
				case !errors.Is(err, gocronstout.ErrNotLeader):
					t.Error(err)
				}
			}
			return leads
		}
		time.Sleep(25 * time.Second)
		first := leader()
		if first < 0 || m.count(first) != 2 {
			t.Errorf("%d leads, and has run the job %d times", first, m.count(first))
		}
		c.Cut(clients[first])
		time.Sleep(10 * time.Second)
		second := leader()
		time.Sleep(10 * time.Second)
		electors[second].Close()
		time.Sleep(10 * time.Second)
		third := leader()
		if second == first || third == second || second < 0 || third < 0 {
			t.Errorf("%d, %d and %d have led", first, second, third)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		for at, runs := range m.runs {
			if runs != 1 {
				t.Errorf("at %s the job has run %d times: %v", at, runs, m.by)
			}
		}
	})
}

// TestJobLock: a lock excludes other lockers by the job's name, with any
// characters, and ends at the earliest when its time is over.
func TestJobLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := stouttest.New(t, stouttest.Options{}), t.Context()
		newLocker := func(least time.Duration) *gocronstout.Locker {
			l, err := gocronstout.NewLocker(c.Client(), "/cron/", least)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close(context.Background()) })
			return l
		}
		one, two := newLocker(time.Second), newLocker(0)
		for _, job := range []string{"job", ".", "..", "example.com/pkg.(*T).run-fm", "a b%/\n", "ü"} {
			held, err := one.Lock(ctx, job)
			if err != nil {
				t.Errorf("%q: %v", job, err)
				continue
			}
			refused := func(what string) {
				t.Helper()
				if _, err := two.Lock(ctx, job); !errors.Is(err, client.ErrLockHeld) {
					t.Errorf("%q %s: %v", job, what, err)
				}
			}
			refused("while it runs")
			if err := held.Unlock(ctx); err != nil || one.Held(job) != nil {
				t.Errorf("%q: %v", job, err)
			}
			refused("soon after it ran")
			time.Sleep(2 * time.Second)
			held, err = two.Lock(ctx, job)
			if err != nil || two.Held(job) == nil {
				t.Errorf("%q later: %v", job, err)
				continue
			}
			if err := held.Unlock(ctx); err != nil {
				t.Error(err)
			}
			if held, err = one.Lock(ctx, job); err != nil {
				t.Errorf("%q at once: %v", job, err)
			} else if err := held.Unlock(ctx); err != nil {
				t.Error(err)
			}
		}
		for _, dir := range []string{"cron", "/cron", "/"} {
			if _, err := gocronstout.NewLocker(c.Client(), dir, 0); err == nil {
				t.Errorf("the directory %q was accepted", dir)
			}
		}
		if _, err := gocronstout.NewElector(c.Client(), "cron"); err == nil {
			t.Error("a bad path was accepted")
		}
		if _, err := gocronstout.NewLocker(c.Client(), "/cron/", -1); err == nil {
			t.Error("a negative time was accepted")
		}
	})
}
