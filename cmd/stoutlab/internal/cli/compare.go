package cli

import (
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// compared is a line of the comparison: the algorithm's default run.
type compared struct {
	*lab.Result
	Family spec.Family `json:"family"`
	Breaks string      `json:"breaks"`
}

func (a *app) compare() *cobra.Command {
	cmd := &cobra.Command{Use: "compare", Short: "Run all algorithms, and show them in one table", Args: cobra.NoArgs}
	var n int
	var seed uint64
	cmd.Flags().IntVarP(&n, "n", "n", 7, "number of processes")
	cmd.Flags().Uint64Var(&seed, "seed", 0, "seed of everything random")
	return a.command(cmd, []string{"table", "json"}, func(format string, _ []string) error {
		if n < 2 || n > 1000 {
			return lab.NewUsage("-n %d: want 2 to 1000 processes", n)
		}
		var all []compared
		for _, alg := range lab.Algorithms() {
			r, err := lab.Run(lab.Options{Algorithm: alg.Name, N: n, Seed: seed, Drift: 0.01})
			if err != nil {
				return err
			}
			if two := meeting(r); alg.Alone && two != "" { // otherwise there would be no synchronization delay
				if r, err = lab.Run(lab.Options{Algorithm: alg.Name, N: n, Seed: seed, Entries: two}); err != nil {
					return err
				}
			}
			all = append(all, compared{r, alg.Family, alg.Breaks})
		}
		if format == "json" {
			return a.json(all)
		}
		return a.comparison(n, all)
	})
}

// meeting returns entries for process 0 and one other process, if neither is in
// the other's voting set: the two sets then meet only in third processes. It
// returns an empty string if there is no such process.
func meeting(r *lab.Result) string {
	if r.MutexResult == nil || len(r.VotingSets) == 0 || !r.Good() {
		return ""
	}
	first := r.VotingSets[0]
	for id, set := range r.VotingSets[1:] {
		if id++; !slices.Contains(first, id) && !slices.Contains(set, 0) {
			return fmt.Sprintf("0:1,%d:1", id)
		}
	}
	return ""
}

func (a *app) comparison(n int, all []compared) error {
	w := tabwriter.NewWriter(&a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "Election, n = %d\tmessages\tthe book\tturnaround\tsafe\tlive\n", n)
	for _, c := range all {
		if c.Family == spec.Election {
			fmt.Fprintf(w, "  %s\t%d\t%s\t%d\t%s\t%s\n", c.Algorithm, c.Messages.Total, book(c.Result), c.Turnaround, yes(c.Safety), yes(c.Liveness))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nMutual exclusion, n = %d\tper entry\tthe book\tclient delay\tthe book\tsynchronization\tthe book\tsafe\tlive\n", n)
	for _, c := range all {
		if c.Family == spec.Mutex {
			client, synchronization := "–", "–"
			if e := c.Expected; e != nil && e.ClientDelay != nil {
				client, synchronization = span(*e.ClientDelay), span(*e.SynchronizationDelay)
			}
			fmt.Fprintf(w, "  %s\t%.1f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Algorithm, c.PerEntry.Messages, book(c.Result),
				brief(c.ClientDelay), client, brief(c.SynchronizationDelay), synchronization, yes(c.Safety), yes(c.Liveness))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nFaults that break it\t")
	for _, c := range all {
		fmt.Fprintf(w, "  %s\t%s\n", c.Algorithm, c.Breaks)
	}
	return w.Flush()
}

// book returns the book's range; for mutual exclusion, per entry that processes
// want, even if they deadlock.
func book(r *lab.Result) string {
	if r.Expected == nil {
		return "–"
	}
	m := r.Expected.Messages
	per := func(v int) string { return fmt.Sprint(v) }
	if r.MutexResult != nil {
		wanted := 0
		for _, times := range r.Plan.Case.Entries {
			wanted += times
		}
		per = func(v int) string { return fmt.Sprintf("%.3g", float64(v)/float64(wanted)) }
	}
	if m.Min == m.Max {
		return per(m.Min)
	}
	return per(m.Min) + " … " + per(m.Max)
}

func brief(d *lab.Delay) string {
	switch {
	case d == nil:
		return "–"
	case d.Min == d.Max:
		return fmt.Sprint(d.Min)
	}
	return fmt.Sprintf("%d … %d", d.Min, d.Max)
}
