package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/explore"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
)

func (a *app) explore() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explore ALGORITHM",
		Short: "Explore all schedules of a few processes, and show a shortest one that breaks a property",
		Example: `  stoutlab explore maekawa -n 3
  stoutlab explore ring -n 3 --crashes 1 --detector perfect`,
		Args: oneAlgorithm,
	}
	o := options(cmd)
	l := explore.Limits{}
	f := cmd.Flags()
	f.IntVar(&l.Depth, "depth", 60, "longest schedule, in events")
	f.IntVar(&l.States, "states", 50_000, "largest number of distinct states")
	f.IntVar(&l.Crashes, "crashes", 0, "number of processes that may crash, each at any time")
	f.BoolVar(&l.Async, "async", false, "let time-outs happen at any time, as with wrong bounds")
	return a.command(cmd, []string{"table", "json"}, func(format string, args []string) error {
		o.Algorithm = args[0]
		if o.N == 0 {
			o.N = 3
		}
		if l.Depth < 1 || l.States < 1 || l.Crashes < 0 {
			return lab.NewUsage("--depth %d --states %d --crashes %d: nothing to explore", l.Depth, l.States, l.Crashes)
		}
		if alg, err := lab.Find(o.Algorithm); err == nil && alg.Alone && o.Entries == "" && o.N != 6 {
			o.Entries = "1" // a single process shows nothing
		}
		plan, err := lab.Prepare(*o)
		if err != nil {
			return err
		}
		if plan.Case.N > 8 {
			return lab.NewUsage("-n %d: want at most 8 processes to explore all schedules", plan.Case.N)
		}
		if l.Crashes > 0 {
			plan.Case.Faulty = true
		}
		r := explore.Explore(plan, l)
		if !r.Safety || !r.Liveness {
			a.code = exitBroken
		}
		if format == "json" {
			return a.json(r)
		}
		a.explored(r)
		return nil
	})
}

func (a *app) explored(r *explore.Result) {
	w := &a.out
	whole := "all schedules, to their ends"
	if !r.Complete {
		whole = "not all schedules: raise --depth or --states"
		if r.Walks > 0 {
			whole += fmt.Sprintf("; and %d random ones, to their ends", r.Walks)
		}
	}
	fmt.Fprintf(w, "%s, n = %d, crashes up to %d: %d states, %d ends, depth %d; %s\n\n",
		r.Algorithm, r.N, r.Crashes, r.States, r.Schedules, r.Depth, whole)
	if r.Counterexample == nil {
		fmt.Fprintln(w, "Nothing breaks safety or liveness.")
		return
	}
	for _, b := range r.Broken {
		fmt.Fprintf(w, "BROKEN %s\n", b)
	}
	which := "A shortest schedule"
	if !r.Counterexample.Shortest {
		which = "A schedule"
	}
	fmt.Fprintf(w, "\n%s that breaks %s:\n", which, r.Counterexample.Property)
	for i, step := range r.Counterexample.Schedule {
		fmt.Fprintf(w, "%4d  %s\n", i+1, step)
	}
	fmt.Fprintf(w, "      %s\n", r.Counterexample.Event)
}
