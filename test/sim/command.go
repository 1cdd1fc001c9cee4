package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/test/sim/mutants"
	"github.com/stoutlock/stout/test/sim/simcell"
)

// settings are the command's flags.
type settings struct {
	seed    uint64
	seeds   uint64
	fresh   uint64
	steps   int
	skew    float64
	access  bool
	members bool
	profile string
	jobs    int
	story   bool
	mutants bool
	only    []string
	out     io.Writer
	say     io.Writer
}

func command(out, say io.Writer) *cobra.Command {
	s := &settings{out: out, say: say}
	c := &cobra.Command{
		Use:           "sim",
		Short:         "Run simulated cells in one process, in virtual time, from seeds",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.check(c.Flags().Changed("seed")); err != nil {
				return err
			}
			if s.mutants {
				return s.runMutants(c.Context(), mutants.All())
			}
			return s.runSeeds(c.Context())
		},
	}
	f := c.Flags()
	f.Uint64Var(&s.seed, "seed", 0, "first seed; without --seeds the only one; with --mutants the first one for each fault")
	f.Uint64Var(&s.seeds, "seeds", 100, "number of seeds, from 1 or --seed on")
	f.Uint64Var(&s.fresh, "fresh", 100, "number of further seeds that were never run before (0 with --seed)")
	f.IntVar(&s.steps, "steps", 200, "steps of each run")
	f.Float64Var(&s.skew, "skew", 1, "how far clocks drift, as a multiple of the configured bound; above 1 promises get broken")
	f.BoolVar(&s.members, "members", false, "change the members in every run, not in one of four")
	f.BoolVar(&s.access, "access", false, "enable access control in every run, not in one of four")
	f.StringVar(&s.profile, "profile", "", "give every run this special profile, which few runs have by default: "+strings.Join(simcell.Profiles(), ", "))
	f.IntVar(&s.jobs, "jobs", runtime.NumCPU(), "processes to run at once")
	f.BoolVar(&s.story, "story", false, "print every step of the run (with --seed)")
	f.BoolVar(&s.mutants, "mutants", false, "insert deliberate faults, one at a time, and show which are found")
	f.StringSliceVar(&s.only, "only", nil, "with --mutants: only the faults with these names")
	return c
}

// check completes the settings, or returns an error for a wrong one.
func (s *settings) check(one bool) error {
	switch {
	case s.steps < 0 || s.steps > 100_000:
		return fmt.Errorf("--steps is %d; give 0 to 100000", s.steps)
	case s.jobs < 1:
		return fmt.Errorf("--jobs is %d; give at least 1", s.jobs)
	case s.skew < 0 || s.skew > 10:
		return fmt.Errorf("--skew is %v; give 0 to 10", s.skew)
	case s.profile != "" && !slices.Contains(simcell.Profiles(), s.profile):
		return fmt.Errorf("--profile is %q; give one of: %s", s.profile, strings.Join(simcell.Profiles(), ", "))
	case s.story && !one:
		return fmt.Errorf("--story needs --seed: the story of many runs is too long")
	}
	switch {
	case one:
		s.fresh = 0
	case s.mutants:
		s.seed = freshSeed()
	default:
		s.seed = 1
	}
	return nil
}

// freshSeed returns the first of the seeds that were never run before.
func freshSeed() uint64 { return uint64(time.Now().UnixMilli()) * 1000 }
