package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/stoutlock/stout/test/internal/overlay"
	"github.com/stoutlock/stout/test/sim/mutants"
	"github.com/stoutlock/stout/test/sim/simcell"
)

// hunt is the search for a seed that fails with one fault.
type hunt struct {
	mutants.Mutant
	program program // its path is empty until it has been built
	alone   bool    // the program has no other fault

	began   time.Time
	left    []job             // rows that have not begun
	running map[uint64]func() // by first seed: ends a row
	failure *simcell.Failure  // of the earliest failed seed
	tried   uint64            // number of seeds
	took    time.Duration
}

// buildAlone builds a program with this fault only.
func (h *hunt) buildAlone(ctx context.Context, root string, base overlay.Overlay) (program, error) {
	o, err := overlay.Mutated(base, root, h.Edit)
	if err != nil {
		return program{}, err
	}
	return build(ctx, root, "mutant-"+h.Name+".test", o)
}

// fails records that a row has failed. Later rows cannot find an earlier seed.
func (h *hunt) fails(f *simcell.Failure, row job, first uint64) {
	h.failure, h.left = f, nil
	h.tried = row.seed - first + 1
	if f.Seed >= row.seed && f.Seed < row.seed+row.seeds {
		h.tried = f.Seed - first + 1
	}
	for seed, end := range h.running {
		if seed > row.seed {
			end()
		}
	}
}

// table runs the hunts, several at once, and prints a row for each, in order.
type table struct {
	s     *settings
	hunts []*hunt

	mu      sync.Mutex
	news    *sync.Cond // a program has been built, or everything must end
	printed int
	found   int
}

func newTable(s *settings, all []mutants.Mutant) *table {
	t := &table{s: s}
	t.news = sync.NewCond(&t.mu)
	for _, m := range all {
		own := *s
		own.profile = cmp.Or(s.profile, m.Profile())
		t.hunts = append(t.hunts, &hunt{Mutant: m, left: own.rows(s.seed, s.seeds), running: map[uint64]func(){}})
	}
	return t
}

// built gives a hunt its program.
func (t *table) built(h *hunt, p program, alone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.program, h.alone = p, alone
	t.news.Broadcast()
}

// run runs all hunts until they or ctx end. On an error it calls stop.
func (t *table) run(ctx context.Context, stop context.CancelCauseFunc) {
	defer context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.news.Broadcast()
	})()
	t.row("FAULT", "FOUND AT", "TRIED", "SECONDS", "BY")
	var workers sync.WaitGroup
	for range t.s.jobs {
		workers.Go(func() {
			for {
				within, end := context.WithCancel(ctx)
				h, row := t.next(within, end)
				if h == nil {
					end()
					return
				}
				report, _, err := h.program.insist(within, row)
				t.ended(h, row, within.Err() != nil, report.Failure, err, stop)
				end()
			}
		})
	}
	workers.Wait()
}

// next starts a row of the first hunt with the fewest running rows. So each
// worker stays at one hunt, and helps with others when no hunt is left. It
// returns nil when no row is left.
func (t *table) next(ctx context.Context, end func()) (*hunt, job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ctx.Err() == nil {
		var best *hunt
		waits := false
		for _, h := range t.hunts {
			switch {
			case len(h.left) == 0:
			case h.program.path == "":
				waits = true
			case best == nil || len(h.running) < len(best.running):
				best = h
			}
		}
		switch {
		case best != nil:
			row := best.left[0]
			if best.left = best.left[1:]; best.began.IsZero() {
				best.began = time.Now()
			}
			best.running[row.seed] = end
			return best, row
		case !waits:
			return nil, job{}
		}
		t.news.Wait()
	}
	return nil, job{}
}

// ended records the end of a row: it was cut off, failed, had an error, or
// passed.
func (t *table) ended(h *hunt, row job, cut bool, f *simcell.Failure, err error, stop context.CancelCauseFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(h.running, row.seed)
	switch {
	case cut:
	case err != nil:
		stop(fmt.Errorf("mutant %s: %w", h.Name, err))
	case f != nil:
		h.fails(f, row, t.s.seed)
	}
	if len(h.left) == 0 && len(h.running) == 0 {
		h.took = time.Since(h.began)
		if h.alone {
			_ = os.Remove(h.program.path)
		}
		t.print()
	}
}

// print prints the rows of finished hunts, up to the first unfinished one.
func (t *table) print() {
	for ; t.printed < len(t.hunts); t.printed++ {
		h := t.hunts[t.printed]
		if len(h.left) > 0 || len(h.running) > 0 {
			return
		}
		at, tried, by := "not found", t.s.seeds, "shown by: "+h.Shows
		if f := h.failure; f != nil {
			t.found++
			at, tried, by = fmt.Sprint("seed ", f.Seed), h.tried, fmt.Sprintf("step %d: %s", f.Step, f.What)
		}
		t.row(h.Name, at, fmt.Sprint(tried), fmt.Sprintf("%.0f", h.took.Seconds()), by)
	}
}

func (t *table) row(name, at, tried, seconds, by string) {
	fmt.Fprintf(t.s.out, "%-32s %21s %6s %8s  %s\n", name, at, tried, seconds, by)
}
