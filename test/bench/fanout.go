package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stoutlock/stout/test/internal/load"
)

// Defaults of the work fanout: the numbers of watchers, and the number of other
// clients that write files of their own.
var watchers = []int{500, 5000}

const others = 16

// runFanout measures how long it takes until the last of many watchers of one
// file has the event of a write, and how this affects other writers.
func runFanout(ctx context.Context, b *bench) error {
	return b.each(watchers, func(via string, n int) error {
		f := &fanout{bench: b, label: fmt.Sprintf("fanout via %s, %d watchers", via, n), via: via, n: n}
		if err := f.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", f.label, err)
		}
		return nil
	})
}

type fanout struct {
	*bench
	label, via string
	n          int
	row        load.Fanout

	others *field
	rounds *field // of the writer; its only step is a round
}

// run measures the others alone, the rounds alone, and both at once.
func (f *fanout) run(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	lapses := f.cell.Lapses()
	if err := f.openOthers(ctx); err != nil {
		return err
	}
	defer f.others.close(ctx)
	var alone, beside, rounds, under summary
	if err := f.times(ctx, "other writers alone", f.others, &alone); err != nil {
		return err
	}
	if err := f.openRounds(watching, &running); err != nil {
		return err
	}
	defer f.rounds.close(ctx)
	if err := f.times(ctx, "alone", f.rounds, &rounds); err != nil {
		return err
	}
	for i := range f.runs {
		if err := f.together(ctx, fmt.Sprintf("%s, with other writers, run %d of %d", f.label, i+1, f.runs), &under, &beside); err != nil {
			return err
		}
	}
	f.row.Alone, f.row.Under = rounds.load(false), under.load(false)
	f.row.Unwatched, f.row.Watched = alone.load(false), beside.load(false)
	f.row.Lapses = f.cell.Lapses() - lapses
	f.add(load.Row{Work: "fanout", Via: f.via, Sessions: f.n, Runs: f.runs, Fanout: &f.row})
	return nil
}

// times makes the runs of one field without other load.
func (f *fanout) times(ctx context.Context, what string, loop *field, sum *summary) error {
	for i := range f.runs {
		if err := f.once(ctx, fmt.Sprintf("%s, %s, run %d of %d", f.label, what, i+1, f.runs), f.plan(0), loop, sum); err != nil {
			return err
		}
	}
	return nil
}

// together makes one run of both fields. The rounds follow one another, or come
// at the requested rate.
func (f *fanout) together(ctx context.Context, label string, rounds, others *summary) error {
	var all sync.WaitGroup
	var under *load.Result
	var failed error
	all.Go(func() { under, failed = f.plan(f.ratesOrClosed()[0]).Run(ctx, f.rounds.steps, load.Hooks{}) })
	err := f.once(ctx, label, f.plan(0), f.others, others)
	all.Wait()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	rounds.add(&outcome{Result: under})
	return nil
}

// openOthers opens the other clients, which write files of their own.
func (f *fanout) openOthers(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, setup)
	defer cancel()
	if f.others, err = f.clients(f.via, others); err != nil {
		return err
	}
	return preparePut(ctx, f.bench, f.others)
}

// openRounds opens the writer and makes the watchers watch until ctx ends.
func (f *fanout) openRounds(ctx context.Context, running *sync.WaitGroup) (err error) {
	f.progress.step("%s: opening", f.label)
	if f.rounds, err = f.clients(f.via, 1); err != nil {
		return err
	}
	if err := f.rounds.openSessions(ctx, f.bench); err != nil {
		return err
	}
	a, err := newAudience(f.via, f.cell.Way(), max(1, f.n/f.watches), f.watches, nodePath("fanout", 0), f.rounds.sessions[0])
	if err != nil {
		return err
	}
	f.rounds.steps = []load.Step{a.round(newLetter())}
	return a.gather(ctx, setup, running)
}
