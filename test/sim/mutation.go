package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stoutlock/stout/test/internal/overlay"
	"github.com/stoutlock/stout/test/sim/mutants"
)

// runMutants runs seeds with each fault until one fails or all have passed.
// Nearly all faults are in one program, and each process selects one.
func (s *settings) runMutants(ctx context.Context, all []mutants.Mutant) error {
	all = slices.DeleteFunc(slices.Clone(all), func(m mutants.Mutant) bool {
		return len(s.only) > 0 && !slices.Contains(s.only, m.Name)
	})
	if len(all) == 0 {
		return errors.New("no mutant has such a name; see test/sim/mutants for the list")
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	base, err := foundation(ctx, root)
	if err != nil {
		return err
	}
	edits := make([]overlay.Edit, len(all))
	for i, m := range all {
		edits[i] = m.Edit
	}
	together, alone, err := overlay.Choice(base, root, edits)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.say, "%d faults, %d of them with a build of their own, up to %d seeds each from %d on\n", len(all), len(alone), s.seeds, s.seed)
	began := time.Now()
	p, err := build(ctx, root, "mutants.test", together)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.say, "built in %v\n", time.Since(began).Round(time.Second))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t := newTable(s, all)
	for i, h := range t.hunts {
		if p.fault = i + 1; !slices.Contains(alone, i) {
			t.built(h, p, false)
		}
	}
	go func() {
		for _, i := range alone {
			p, err := t.hunts[i].buildAlone(ctx, root, base)
			if err != nil {
				stop(fmt.Errorf("mutant %s: %w", all[i].Name, err))
				return
			}
			t.built(t.hunts[i], p, true)
		}
	}()
	t.run(ctx, stop)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%d of %d found in %v\n", t.found, len(all), time.Since(began).Round(time.Second))
	if t.found < len(all) {
		return fmt.Errorf("%d faults were not found in %d seeds each", len(all)-t.found, s.seeds)
	}
	return nil
}
