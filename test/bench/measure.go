package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

// setup bounds the preparation of a measurement: sessions, first locks.
const setup = 2 * time.Minute

// looped makes a work of operations in a loop: for every way to call, every
// number of sessions and every rate.
func looped(name string, p prepare, sessions ...int) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		return b.each(sessions, func(via string, n int) error {
			for _, rate := range b.ratesOrClosed() {
				s := b.side(name, via, n)
				if err := s.measure(ctx, p, b.plan(rate)); err != nil {
					return err
				}
				b.add(s.row)
			}
			return nil
		})
	}
}

// side is the cell and the sessions of one row. Its bench has the cell.
type side struct {
	*bench
	row   load.Row
	field *field
	sum   summary
}

func (b *bench) side(work, via string, n int) *side {
	return &side{bench: b, row: load.Row{Work: work, Via: via, Sessions: n, Runs: b.runs}}
}

func (s *side) label() string {
	return fmt.Sprintf("%s via %s, %d sessions", s.row.Work, s.row.Via, s.row.Sessions)
}

// measure makes the runs of the row, in turn with the runs of others: only then
// are their figures comparable. All runs use the same sessions.
func (s *side) measure(ctx context.Context, p prepare, plan load.Plan, others ...*side) error {
	sides := append([]*side{s}, others...)
	opening, cancel := context.WithTimeout(ctx, setup)
	defer cancel()
	for _, s := range sides {
		s.progress.step("%s: opening", s.label())
		var err error
		if s.field, err = s.clients(s.row.Via, s.row.Sessions); err != nil {
			return err
		}
		defer s.field.close(ctx)
		if err := p(opening, s.bench, s.field); err != nil {
			return fmt.Errorf("%s: %w", s.label(), err)
		}
		if s.field.closed {
			plan.Rate = 0
		}
		s.row.Offered = plan.Rate
	}
	for i := range s.runs {
		for _, s := range sides {
			if err := s.once(ctx, fmt.Sprintf("%s, run %d of %d", s.label(), i+1, s.runs), plan, s.field, &s.sum); err != nil {
				return err
			}
		}
	}
	for _, s := range sides {
		s.row.Loop = s.sum.load(s.field.shares)
	}
	return nil
}

// outcome is one run and its cost.
type outcome struct {
	*load.Result
	before, after       target.Sample
	ownBefore, ownAfter time.Duration
	elections           uint64
	triesBefore         int64 // so far, if an operation may take several
	triesAfter          int64
}

// sampling bounds each reading of the cell at the begin and the end of a run's
// window.
const sampling = 2 * time.Second

// once makes one run and adds it to sum.
func (b *bench) once(ctx context.Context, label string, plan load.Plan, f *field, sum *summary) error {
	out := &outcome{}
	first, err := b.epoch(ctx)
	if err != nil {
		return err
	}
	sample := func(s *target.Sample, own *time.Duration, tries *int64) func() {
		return func() {
			if f.tries != nil {
				*tries = f.tries.Load()
			}
			ctx, cancel := context.WithTimeout(ctx, sampling)
			defer cancel()
			// The table shows a dash for a figure without a sample.
			*s, _ = b.cell.Sample(ctx)
			*own = target.OwnCPU()
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
		return err
	}
	last, err := b.epoch(ctx)
	if err != nil {
		return err
	}
	out.elections = last - first
	b.progress.note("%s: %.0f/s, p50 %v, p99 %v, %d errors", label, out.Rate(), out.Quantile(0.5), out.Quantile(0.99), out.Errors)
	sum.add(out)
	return nil
}

// epochBound is how long a measurement waits for a master.
const epochBound = 30 * time.Second

// epoch returns the current epoch. It asks again while the cell has no master.
func (b *bench) epoch(ctx context.Context) (epoch uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, epochBound)
	defer cancel()
	var failed error
	err = until(ctx, func() (bool, error) {
		view, err := b.cell.View(ctx)
		epoch, failed = view.Epoch, err
		return err == nil, nil
	})
	if err != nil {
		return 0, fmt.Errorf("read the epoch: %w; last error: %w", err, failed)
	}
	return epoch, nil
}

func until(ctx context.Context, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits for d. It returns the context's error if ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
