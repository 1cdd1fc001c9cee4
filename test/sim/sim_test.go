package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/test/sim/mutants"
	"github.com/stoutlock/stout/test/sim/simcell"
)

const steps = 150

// simulator builds the program once for all tests.
var simulator = sync.OnceValues(func() (program, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return program{}, err
	}
	o, err := foundation(context.Background(), root)
	if err != nil {
		return program{}, err
	}
	return build(context.Background(), root, "world.test", o)
})

func built(t *testing.T) program {
	t.Helper()
	p, err := simulator()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSeedsRunClean runs fixed seeds, and at night a fresh set as well. make
// sim runs any number.
func TestSeedsRunClean(t *testing.T) {
	var out bytes.Buffer
	s := &settings{
		seed: 1, seeds: uint64(testrun.Times(20, 200)), fresh: uint64(testrun.Times(0, 200)),
		steps: testrun.Times(70, steps), skew: 1, jobs: runtime.NumCPU(), out: &out, say: &out,
	}
	err := s.runSeeds(t.Context())
	t.Log(out.String())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), fmt.Sprintf("%d seeds, ", s.seeds+s.fresh)) {
		t.Errorf("not all of %d seeds ran", s.seeds+s.fresh)
	}
	for _, name := range mainChecks {
		if !regexp.MustCompile("[:,] " + name + " [1-9]").MatchString(out.String()) {
			t.Errorf("no run had the check %q", name)
		}
	}
}

// mainChecks are checks that every set of runs has.
var mainChecks = []string{
	"applied state", "model", "transition", "lease", "expiry", "every user gets every lock",
	"reported grant", "reported release", "reported obstacle", "read", "session read", "former sequencer",
	"reported write", "reported condition", "reported deletion", "read at a revision", "received event", "kept events",
	"grant of a key", "reported change of a key", "read of a key", "blocking query",
	"permitted answer", "refused permission", "reported history", "configuration", "power lost",
}

// TestSameSeedSameRun: a seed makes the same run in a row of seeds and beside
// other work.
func TestSameSeedSameRun(t *testing.T) {
	testrun.E2E(t)
	p := built(t)
	sum := func(first, seeds uint64, steps int) uint64 {
		t.Helper()
		r, said, err := p.run(t.Context(), job{seed: first, seeds: seeds, steps: steps, skew: 1})
		if err != nil || r.Failure != nil {
			t.Fatalf("seed %d: %v, %v\n%s", first, r.Failure, err, said)
		}
		return r.Sum
	}
	row := sum(500, 3, steps)
	var alone uint64
	for i := range uint64(3) {
		alone += sum(500+i, 1, steps)
	}
	if row != alone {
		t.Errorf("seeds 500 to 502 made %016x in a row and %016x alone", row, alone)
	}
	if sum(500, 1, steps) == sum(501, 1, steps) {
		t.Error("two different seeds make the same run")
	}
}

// TestClocksBeyondTheBound: the promises depend on the clocks' bound, and the
// simulator shows it.
func TestClocksBeyondTheBound(t *testing.T) {
	testrun.E2E(t)
	broken(t)
}

// skewed runs seeds with clocks five times beyond the bound, once for all
// tests, until one breaks a promise.
var skewed = sync.OnceValues(func() (simcell.Report, error) {
	p, err := simulator()
	if err != nil {
		return simcell.Report{}, err
	}
	s := &settings{steps: steps, skew: 5}
	total, _, err := p.all(context.Background(), runtime.NumCPU(), s.rows(1, 200), func(simcell.Report) {})
	return total, err
})

// broken returns the failure of such a seed.
func broken(t *testing.T) *simcell.Failure {
	t.Helper()
	total, err := skewed()
	if err != nil {
		t.Fatal(err)
	}
	if total.Failure == nil {
		t.Fatal("200 seeds with clocks five times beyond the bound break no promise")
	}
	return total.Failure
}

// TestFaultsAreFound tries a few of the deliberate faults. make mutants tries
// all.
func TestFaultsAreFound(t *testing.T) {
	testrun.E2E(t)
	var out bytes.Buffer
	few := []string{"no-wait", "file-not-synced", "promise-survives-restart"} // the last one takes many seeds
	s := &settings{
		seed: 1, seeds: 200, steps: steps, skew: 1, jobs: runtime.NumCPU(), out: &out, say: io.Discard,
		only: few[:testrun.Times(2, len(few))],
	}
	if err := s.runMutants(t.Context(), mutants.All()); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestShortestRun: a failure is reported with the shortest run that shows it,
// and with its story.
func TestShortestRun(t *testing.T) {
	testrun.E2E(t)
	p := built(t)
	first := broken(t)
	last, err := p.shortest(t.Context(), job{seed: first.Seed, seeds: 1, steps: steps, skew: 5}, first)
	switch {
	case err != nil || last.failure == nil:
		t.Fatal(last, err)
	case last.steps > first.Step || last.failure.Seed != first.Seed:
		t.Errorf("%d steps for a failure in step %d: %v", last.steps, first.Step, last.failure)
	case !strings.Contains(last.story, "BROKEN: "+last.failure.What):
		t.Errorf("the story does not contain %q", last.failure.What)
	}
}

func TestSettings(t *testing.T) {
	for _, args := range [][]string{
		{"--steps", "-1"}, {"--jobs", "0"}, {"--skew", "11"}, {"--story"}, {"stray"}, {"--mutants", "--only", "no-such-mutant"},
	} {
		c := command(io.Discard, io.Discard)
		c.SetArgs(slices.Clone(args))
		if err := c.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
