package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoutlock/stout/test/sim/simcell"
)

// perProcess is the number of seeds per process.
const perProcess = 25

// runSeeds runs the seeds of the settings.
func (s *settings) runSeeds(ctx context.Context) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	fmt.Fprintln(s.say, "building against the simulated runtime (the first time, this compiles the standard library)")
	o, err := foundation(ctx, root)
	if err != nil {
		return err
	}
	p, err := build(ctx, root, "world.test", o)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.say, "built in %v\n", time.Since(began).Round(time.Second))
	jobs := s.rows(s.seed, s.seeds)
	if s.fresh > 0 {
		first := freshSeed()
		fmt.Fprintf(s.say, "seeds %d to %d, and %d to %d, %d steps each\n", s.seed, s.seed+s.seeds-1, first, first+s.fresh-1, s.steps)
		jobs = append(jobs, s.rows(first, s.fresh)...)
	}
	began = time.Now()
	total, story, err := p.all(ctx, s.jobs, jobs, s.progress)
	if err != nil {
		return err
	}
	if s.story {
		fmt.Fprint(s.out, story)
	}
	s.summary(total, time.Since(began))
	if total.Failure != nil {
		return s.explain(ctx, p, total.Failure)
	}
	return nil
}

// rows divides a range of seeds into jobs of one process each.
func (s *settings) rows(first, count uint64) []job {
	var out []job
	for n := uint64(0); n < count; n += perProcess {
		out = append(out, job{seed: first + n, seeds: min(perProcess, count-n), steps: s.steps, skew: s.skew, access: s.access, members: s.members, profile: s.profile, story: s.story})
	}
	return out
}

// all runs jobs, several at once, until all are done or one fails.
func (p program) all(ctx context.Context, atOnce int, jobs []job, progress func(simcell.Report)) (total simcell.Report, story string, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	total.Add(simcell.Report{})
	queue := make(chan job)
	go func() {
		defer close(queue)
		for _, j := range jobs {
			select {
			case queue <- j:
			case <-ctx.Done():
				return
			}
		}
	}()
	var mu sync.Mutex
	var running sync.WaitGroup
	for range atOnce {
		running.Go(func() {
			for j := range queue {
				report, told, e := p.insist(ctx, j)
				mu.Lock()
				switch {
				case total.Failure != nil || err != nil:
				case e != nil:
					err = e
					stop()
				default:
					total.Add(report)
					story += told
					progress(total)
					if total.Failure != nil {
						stop()
					}
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return total, story, err
}

func (s *settings) progress(total simcell.Report) {
	if total.Stats.Seeds%500 == 0 && total.Stats.Seeds > 0 {
		fmt.Fprintf(s.say, "%d seeds\n", total.Stats.Seeds)
	}
}

// summary prints what was run.
func (s *settings) summary(total simcell.Report, took time.Duration) {
	t := total.Stats
	fmt.Fprintf(s.out, "%d seeds, %d steps, %v of virtual time in %v\n", t.Seeds, t.Steps, t.Virtual.Round(time.Second), took.Round(time.Second))
	fmt.Fprintf(s.out, "  %d entries committed, %d terms of office, %d Raft messages, %d of them pipelined, %d HTTP requests\n",
		t.Entries, t.Offices, t.Messages, t.Pipelined, t.Requests)
	fmt.Fprintf(s.out, "  faults: %s\n", counts(t.Faults))
	fmt.Fprintf(s.out, "  checks: %s\n", counts(t.Checks))
	fmt.Fprintf(s.out, "  trace hash: %016x\n", total.Sum)
}

func counts(m map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(parts, ", ")
}

// explain finds the shortest prefix of a run that fails, and keeps its story.
func (s *settings) explain(ctx context.Context, p program, f *simcell.Failure) error {
	fmt.Fprintf(s.out, "\nBROKEN: %v\n", f)
	last, err := p.shortest(ctx, job{seed: f.Seed, seeds: 1, steps: s.steps, skew: s.skew, access: s.access, members: s.members, profile: s.profile}, f)
	if err != nil {
		return err
	}
	if last.failure == nil {
		return fmt.Errorf("seed %d failed after other seeds but not alone: the simulator is not deterministic, which is a fault of its own", f.Seed)
	}
	name := filepath.Join(filepath.Dir(p.path), fmt.Sprintf("seed-%d.txt", f.Seed))
	if err := os.WriteFile(name, []byte(last.story), 0o644); err != nil {
		return err
	}
	lines := strings.SplitAfter(last.story, "\n")
	fmt.Fprintf(s.out, "shortest run that fails: %d steps: %v\n%s", last.steps, last.failure, strings.Join(lines[max(0, len(lines)-25):], ""))
	return fmt.Errorf("a promise is broken; the whole story is in %s; run it again: make sim SEED=%d STEPS=%d", name, f.Seed, last.steps)
}

// ending is the end of a run with this many steps.
type ending struct {
	steps   int
	failure *simcell.Failure
	story   string
}

// shortest finds the smallest number of steps with which a seed fails.
func (p program) shortest(ctx context.Context, j job, f *simcell.Failure) (last ending, err error) {
	j.story = true
	try := func(steps int) (bool, error) {
		j.steps = steps
		report, story, err := p.run(ctx, j)
		if err == nil && report.Failure != nil {
			last = ending{steps, report.Failure, story}
		}
		return report.Failure != nil, err
	}
	if failed, err := try(j.steps); err != nil || !failed {
		return last, err
	}
	low, high := 0, min(last.steps, max(f.Step, 0))
	for low <= high {
		middle := (low + high) / 2
		failed, err := try(middle)
		if err != nil {
			return last, err
		}
		if failed {
			high = middle - 1
		} else {
			low = middle + 1
		}
	}
	return last, nil
}
