package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stoutlock/stout/test/bench/internal/drive"
	"github.com/stoutlock/stout/test/bench/internal/host"
	"github.com/stoutlock/stout/test/bench/internal/load"
	"github.com/stoutlock/stout/test/bench/internal/report"
)

// setup bounds what comes before a measurement: sessions, first locks.
const setup = 2 * time.Minute

// looped is a work that does operations in a loop: for every way to call, every
// number of sessions (its own where none were named) and every rate.
func looped(name string, p prepare, sessions ...int) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		ns := sessions
		if len(b.sessions) > 0 {
			ns = b.sessions
		}
		for _, via := range b.via {
			for _, n := range ns {
				for _, rate := range b.ratesOrClosed() {
					row := report.Row{Work: name, Via: via, SharedClient: b.shared, Sessions: n, Offered: rate, Runs: b.runs}
					if err := b.measure(ctx, row, p, b.plan(rate)); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
}

// measure makes the runs of one row. The sessions are the same in all of them.
func (b *bench) measure(ctx context.Context, row report.Row, p prepare, plan load.Plan) error {
	label := fmt.Sprintf("%s via %s, %d sessions", row.Work, row.Via, row.Sessions)
	b.progress.step("%s: opening", label)
	f := &field{}
	var err error
	if f.clients, err = drive.Clients(row.Via, b.cell.Way(), row.Sessions, row.SharedClient); err != nil {
		return err
	}
	defer f.close(ctx)
	opening, cancel := context.WithTimeout(ctx, setup)
	defer cancel()
	if err := p(opening, b, f); err != nil {
		return fmt.Errorf("%s: %w", label, err)
	}
	if f.closed {
		row.Offered, plan.Rate = 0, 0
	}
	var sum summary
	for i := range row.Runs {
		r, err := b.once(ctx, fmt.Sprintf("%s, run %d of %d", label, i+1, row.Runs), plan, f)
		if err != nil {
			return err
		}
		sum.add(r)
	}
	row.Load = sum.load(f.shares)
	b.add(row)
	return nil
}

// outcome is one run with what it cost.
type outcome struct {
	*load.Result
	before, after       host.Sample
	ownBefore, ownAfter time.Duration
	elections           uint64
	triesBefore         int64 // so far, where an operation may take several
	triesAfter          int64
}

// sampling bounds the look at the cell at the ends of a run's window.
const sampling = 2 * time.Second

// once makes one run.
func (b *bench) once(ctx context.Context, label string, plan load.Plan, f *field) (*outcome, error) {
	out := &outcome{}
	first, err := b.epoch(ctx)
	if err != nil {
		return nil, err
	}
	sample := func(s *host.Sample, own *time.Duration, tries *int64) func() {
		return func() {
			if f.tries != nil {
				*tries = f.tries.Load()
			}
			ctx, cancel := context.WithTimeout(ctx, sampling)
			defer cancel()
			// What cannot be had is shown as a dash.
			*s, _ = b.cell.Sample(ctx)
			*own = host.OwnCPU()
		}
	}
	total := plan.Warmup + plan.Duration
	out.Result, err = plan.Run(ctx, f.steps, load.Hooks{
		Begin: sample(&out.before, &out.ownBefore, &out.triesBefore),
		End:   sample(&out.after, &out.ownAfter, &out.triesAfter),
		Watch: func(elapsed time.Duration, measured int64) {
			b.progress.step("%s: %v of %v, %d operations", label, elapsed.Truncate(time.Second), total, measured)
		},
	})
	if err != nil {
		return nil, err
	}
	last, err := b.epoch(ctx)
	if err != nil {
		return nil, err
	}
	out.elections = last - first
	b.progress.note("%s: %.0f/s, p50 %v, p99 %v, %d errors", label, out.Rate(), out.Quantile(0.5), out.Quantile(0.99), out.Errors)
	return out, nil
}

// epochBound is how long a cell may be without a master before a measurement is
// given up.
const epochBound = 30 * time.Second

// epoch is the present term of office. A cell between two masters is asked
// again.
func (b *bench) epoch(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, epochBound)
	defer cancel()
	for {
		view, err := b.cell.View(ctx)
		if err == nil {
			return view.Epoch, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return 0, fmt.Errorf("which epoch it is: %w; at last: %w", context.Cause(ctx), err)
		}
	}
}
