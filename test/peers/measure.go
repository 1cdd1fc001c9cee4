package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

const (
	// ttl of all sessions: Stout's default.
	ttl = 12 * time.Second
	// setup bounds the preparation of a run, drain its last operations.
	setup = 2 * time.Minute
	drain = 30 * time.Second
)

// measure makes the runs of all rows: one run of each row in each system, and
// then the next. So no system has its runs in a better time of the machine, and
// a virtual machine has compiled its code before most of them. Each run has its
// own clients, and another system begins.
func (p *peers) measure(ctx context.Context, rows []row) error {
	for i := range p.runs {
		for _, r := range rows {
			for j := range p.systems {
				j = (i + j) % len(p.systems)
				s, f := p.systems[j], &r.figures[j]
				once := p.once
				if r.work.rate == nil {
					once = gap
				}
				if err := once(ctx, s, r.work, r.sessions, f); err != nil {
					f.fail(1, err)
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
				fmt.Fprintf(p.log, "run %d of %d: %s, %d sessions, %s: %.2f, %d errors\n",
					i+1, p.runs, r.work.name, r.sessions, s.name, f.rates, f.errors)
			}
		}
	}
	return nil
}

// open makes the clients and sessions of a run: with all servers or the leader.
// The caller must close it, even after an error.
func open(ctx context.Context, s *system, n int, all bool) (*field, error) {
	f := &field{}
	if err := s.ready(ctx); err != nil {
		return f, err
	}
	for range n {
		c, err := s.dial(all)
		if err != nil {
			return f, err
		}
		f.clients = append(f.clients, c)
	}
	var err error
	f.sessions, err = target.OpenAll(ctx, f.clients, ttl)
	return f, err
}

func (f *field) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	target.CloseAll(ctx, f.sessions)
	for _, c := range f.clients {
		_ = c.Close() // the run is over
	}
}

// once makes one run.
func (p *peers) once(ctx context.Context, s *system, w work, n int, to *figures) error {
	opening, cancel := context.WithTimeout(ctx, setup)
	defer cancel()
	f, err := open(opening, s, n, false)
	defer f.close(ctx)
	if err != nil {
		return err
	}
	operations, err := w.rate(opening, f)
	if err != nil {
		return err
	}
	var steps []load.Step
	for _, do := range operations {
		steps = append(steps, load.Timed(do))
	}
	var before, after time.Duration
	var failed [2]error
	result, err := p.plan.Run(ctx, steps, load.Hooks{
		Begin: func() { before, failed[0] = s.cpu() },
		End:   func() { after, failed[1] = s.cpu() },
	})
	if err != nil {
		return err
	}
	to.rates = append(to.rates, result.Rate())
	if done := result.Latency.TotalCount(); done > 0 && failed == [2]error{} {
		to.cpu = append(to.cpu, load.Milliseconds(after-before)/float64(done)*1000)
	}
	to.fail(result.Errors, result.FirstError)
	return nil
}

// fail counts errors and keeps the first. A run that cannot begin is one.
func (f *figures) fail(n int64, err error) {
	f.errors += n
	if f.first == nil {
		f.first = err
	}
}

const (
	// pollEvery is the pause between two writes, attempt the bound of one.
	pollEvery = 5 * time.Millisecond
	attempt   = 200 * time.Millisecond
	// calm is how long writes succeed before a kill.
	calm = 2 * time.Second
	// recovery bounds a gap.
	recovery = time.Minute
)

// gap kills the leader while a client that knows all servers writes a file. It
// adds the longest time between two successes from the kill on, in seconds.
func gap(ctx context.Context, s *system, _ work, n int, to *figures) error {
	f, err := open(ctx, s, n, true)
	defer f.close(ctx)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	var last time.Time // of the successes
	write := func() bool {
		time.Sleep(pollEvery)
		return try(bounded, func(ctx context.Context) error { return f.sessions[0].WriteFile(ctx, path("failover", 0), content) }) == nil
	}
	for began := time.Now(); time.Since(began) < calm || last.IsZero(); {
		if write() {
			last = time.Now()
		}
		if bounded.Err() != nil {
			return fmt.Errorf("no write within %v: %w", recovery, bounded.Err())
		}
	}
	type outcome struct {
		restore func(context.Context) error
		err     error
	}
	killed := make(chan outcome, 1)
	go func() {
		restore, err := s.killLeader(bounded)
		killed <- outcome{restore, err}
	}()
	var longest time.Duration
	var kill *outcome
	for served := false; !served; {
		select {
		case k := <-killed:
			if k.err != nil {
				return k.err
			}
			kill = &k
		default:
		}
		if write() { // an answer of the killed one does not count
			longest, last = max(longest, time.Since(last)), time.Now()
			served = kill != nil
		}
		if bounded.Err() != nil {
			err = fmt.Errorf("no write within %v: %w", recovery, bounded.Err())
			break
		}
	}
	if err == nil {
		to.rates = append(to.rates, longest.Seconds())
	}
	if kill == nil {
		return err
	}
	return errors.Join(err, kill.restore(ctx))
}

// try bounds an operation, also one that does not end with its context.
func try(ctx context.Context, do operation) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
