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
// settings allow have passed. While the seeds of one run the next is built.
func (s *settings) runMutants(ctx context.Context, all []mutants.Mutant) error {
	all = slices.DeleteFunc(slices.Clone(all), func(m mutants.Mutant) bool {
		return len(s.only) > 0 && !slices.Contains(s.only, m.Name)
	})
	if len(all) == 0 {
		return errors.New("no mutant has such a name; they are listed in test/sim/mutants")
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	base, err := overlay.Runtime(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.say, "%d faults, up to %d seeds each from %d on\n", len(all), s.seeds, s.seed)
	t := table{s: s}
	t.row("FAULT", "FOUND AT", "TRIED", "SECONDS", "BY")
	began := time.Now()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for b := range s.built(ctx, root, base, all) {
		if b.err == nil {
			b.err = t.hunt(ctx, b)
		}
		if b.err != nil {
			return fmt.Errorf("mutant %s: %w", b.Name, b.err)
		}
	}
	fmt.Fprintf(s.out, "%d of %d found in %v\n", t.found, len(all), time.Since(began).Round(time.Second))
	if t.found < len(all) {
		return fmt.Errorf("%d faults were not found in %d seeds each", len(all)-t.found, s.seeds)
	}
	return ctx.Err()
}

// mutated is a mutant and its program.
type mutated struct {
	mutants.Mutant
	program
	err error
}

// built delivers the mutants' programs, each valid until the next is asked for.
func (s *settings) built(ctx context.Context, root string, base overlay.Overlay, all []mutants.Mutant) <-chan mutated {
	out := make(chan mutated)
	go func() {
		defer close(out)
		for i, m := range all {
			b := mutated{Mutant: m}
			var o overlay.Overlay
			if o, b.err = overlay.Mutated(base, root, m.Edit); b.err == nil {
				b.program, b.err = build(ctx, root, fmt.Sprintf("mutant-%d.test", i%2), o)
			}
			select {
			case out <- b:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// table is what the hunt came to so far.
type table struct {
	s     *settings
	found int
}

func (t *table) row(name, at, tried, seconds, by string) {
	fmt.Fprintf(t.s.out, "%-32s %21s %6s %8s  %s\n", name, at, tried, seconds, by)
}

// hunt runs seeds of one mutant, until one fails, and adds a row.
func (t *table) hunt(ctx context.Context, b mutated) error {
	began := time.Now()
	total, _, err := b.all(ctx, t.s.jobs, t.s.rows(t.s.seed, t.s.seeds), func(world.Report) {})
	if err != nil {
		return err
	}
	at, by := "not found", "shown by: "+b.Shows
	if f := total.Failure; f != nil {
		t.found++
		at, by = fmt.Sprint("seed ", f.Seed), fmt.Sprintf("step %d: %s", f.Step, f.What)
	}
	t.row(b.Name, at, fmt.Sprint(max(total.Stats.Seeds, 1)), fmt.Sprintf("%.0f", time.Since(began).Seconds()), by)
	return nil
}
