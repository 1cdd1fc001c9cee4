package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stoutlock/stout/test/sim/internal/overlay"
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
	tried, missed := 0, 0
	fmt.Fprintf(s.out, "%-28s %-9s %7s %8s  %s\n", "FAULT", "", "SEEDS", "SECONDS", "FOUND BY")
	for _, m := range all {
		if len(s.only) > 0 && !slices.Contains(s.only, m.Name) {
			continue
		}
		tried++
		began := time.Now()
		found, seeds, err := s.hunt(ctx, root, base, m)
		if err != nil {
			return fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		verdict, by := "found", ""
		if found == nil {
			verdict = "NOT FOUND"
			missed++
		} else {
			by = fmt.Sprintf("seed %d, step %d: %s", found.Seed, found.Step, found.What)
		}
		fmt.Fprintf(s.out, "%-28s %-9s %7d %8.0f  %s\n", m.Name, verdict, seeds, time.Since(began).Seconds(), by)
	}
	if tried == 0 {
		return errors.New("no mutant has such a name; they are listed in test/sim/mutants")
	}
	fmt.Fprintf(s.out, "%d of %d found\n", tried-missed, tried)
	if missed > 0 {
		return fmt.Errorf("%d faults were not found in %d seeds each", missed, s.seeds)
	}
	return nil
}

// hunt runs seeds of one mutant.
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
	return total.Failure, total.Stats.Seeds + 1, err
}
