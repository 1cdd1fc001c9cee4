package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stoutlock/stout/test/internal/overlay"
	"github.com/stoutlock/stout/test/sim/mutants"
	"github.com/stoutlock/stout/test/sim/world"
)

// runMutants puts each fault in and runs seeds until one fails, or all that the
// settings allow have passed.
func (s *settings) runMutants(ctx context.Context, all []mutants.Mutant) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	base, err := overlay.Runtime(ctx)
	if err != nil {
		return err
	}
	tried, found := 0, 0
	row := func(name, at, tried, seconds, by string) {
		fmt.Fprintf(s.out, "%-32s %9s %6s %8s  %s\n", name, at, tried, seconds, by)
	}
	row("FAULT", "FOUND AT", "TRIED", "SECONDS", "BY")
	for _, m := range all {
		if len(s.only) > 0 && !slices.Contains(s.only, m.Name) {
			continue
		}
		tried++
		began := time.Now()
		failure, seeds, err := s.hunt(ctx, root, base, m)
		if err != nil {
			return fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		at, by := "not found", "shown by: "+m.Shows
		if failure != nil {
			found++
			at, by = fmt.Sprint("seed ", failure.Seed), fmt.Sprintf("step %d: %s", failure.Step, failure.What)
		}
		row(m.Name, at, fmt.Sprint(seeds), fmt.Sprintf("%.0f", time.Since(began).Seconds()), by)
	}
	if tried == 0 {
		return errors.New("no mutant has such a name; they are listed in test/sim/mutants")
	}
	fmt.Fprintf(s.out, "%d of %d found\n", found, tried)
	if found < tried {
		return fmt.Errorf("%d faults were not found in %d seeds each", tried-found, s.seeds)
	}
	return nil
}

// hunt runs seeds of one mutant, until one fails. It returns that failure and how
// many seeds were tried.
func (s *settings) hunt(ctx context.Context, root string, base overlay.Overlay, m mutants.Mutant) (*world.Failure, int, error) {
	o, err := overlay.Mutated(base, root, m.Edit)
	if err != nil {
		return nil, 0, err
	}
	p, err := build(ctx, root, "mutant.test", o)
	if err != nil {
		return nil, 0, err
	}
	total, _, err := p.all(ctx, s.jobs, s.rows(s.seed, s.seeds), func(world.Report) {})
	return total.Failure, max(total.Stats.Seeds, 1), err
}
