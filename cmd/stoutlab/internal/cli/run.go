package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

func (a *app) run() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run ALGORITHM",
		Short: "Run an algorithm, count its messages, and check safety and liveness",
		Example: `  stoutlab run ring -n 6 --initiators 3 --crash 5@elected --seed 7
  stoutlab run bully --latency 1..20 --bound 1 --seed 5
  stoutlab run maekawa -n 13 --entries 0:1 -o json`,
		Args: oneAlgorithm,
	}
	o := options(cmd)
	cmd.Flags().IntVar(&o.Trace, "trace", 0, "with -o json: include this many events of the run, with Lamport clocks")
	return a.command(cmd, []string{"table", "json"}, func(format string, args []string) error {
		o.Algorithm = args[0]
		r, err := lab.Run(*o)
		if err != nil {
			return err
		}
		if !r.Good() {
			a.code = exitBroken
		}
		if format == "json" {
			return a.json(r)
		}
		report(&a.out, r)
		return nil
	})
}

func report(w io.Writer, r *lab.Result) {
	fmt.Fprintf(w, "%s: %s\n", r.Algorithm, r.Plan.Algorithm.Line)
	fmt.Fprintf(w, "%s\n\n", setting(r))
	var table bytes.Buffer
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	counts(t, r)
	election(t, r)
	mutex(t, r)
	t.Flush()
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
	fmt.Fprintln(w)
	verdict(w, r)
}

func setting(r *lab.Result) string {
	c, cfg := r.Plan.Case, r.Plan.Config
	words := []string{fmt.Sprintf("n = %d", r.N)}
	switch {
	case len(c.Initiators) == r.N && r.N > 1:
		words = append(words, "all begin")
	case len(c.Initiators) > 0:
		words = append(words, "begins: "+short(c.Initiators))
	}
	if r.Plan.Algorithm.Ring && r.N <= 16 {
		words = append(words, "ring "+strings.Join(strs(c.Ring), "→"))
	}
	latency := fmt.Sprintf("latency %d", cfg.Latency.Least)
	if cfg.Latency.Most != cfg.Latency.Least {
		latency += fmt.Sprintf("..%d", cfg.Latency.Most)
	}
	return strings.Join(append(words, latency, fmt.Sprintf("seed %d", r.Seed)), ", ")
}

func strs(ids []int) []string {
	var words []string
	for _, id := range ids {
		words = append(words, fmt.Sprint(id))
	}
	return words
}

func short(ids []int) string {
	words := strs(ids)
	if len(words) > 8 {
		words = append(words[:8], "…")
	}
	return strings.Join(words, ", ")
}

func counts(t io.Writer, r *lab.Result) {
	book := func(string) string { return "" }
	fmt.Fprint(t, "\tmeasured\tthe book\t\n")
	if e := r.Undisturbed; e != nil {
		book = func(what string) string {
			v, got := e.Messages, r.Messages.Total
			if what == "turnaround" {
				v, got = e.Turnaround, r.Turnaround
			}
			if r.Expected == nil {
				return span(v) + "\twithout faults"
			}
			verdict := "within"
			if v.Min == v.Max {
				verdict = "equal"
			}
			if r.Within == nil {
				verdict = "did not finish"
			} else if !v.Holds(got) {
				verdict = "DIFFERS"
			}
			return span(v) + "\t" + verdict
		}
	}
	fmt.Fprintf(t, "messages\t%d\t%s\n", r.Messages.Total, book("messages"))
	for _, k := range r.Plan.Algorithm.Kinds {
		fmt.Fprintf(t, "  %s\t%d\t\n", k.Name, r.Messages.ByKind[k.Name])
	}
	if r.Messages.ToSelf > 0 {
		fmt.Fprintf(t, "  to itself, not counted\t%d\t\n", r.Messages.ToSelf)
	}
	fmt.Fprintf(t, "bits\t%d\t\n", r.Messages.Bits)
	fmt.Fprintf(t, "turnaround, in messages\t%d\t%s\n", r.Turnaround, book("turnaround"))
	fmt.Fprintf(t, "virtual time\t%d\t\n", r.VirtualTime)
}

func span(r spec.Range) string {
	if r.Min == r.Max {
		return fmt.Sprint(r.Min)
	}
	return fmt.Sprintf("%d … %d", r.Min, r.Max)
}

func election(t io.Writer, r *lab.Result) {
	if r.ElectionResult == nil {
		return
	}
	leader := "none that all agree on"
	if r.Leader != nil {
		leader = fmt.Sprint(*r.Leader)
	}
	fmt.Fprintf(t, "leader\t%s\t\n", leader)
	if len(r.Announced) > 1 {
		fmt.Fprintf(t, "announced themselves\t%s\t\n", short(r.Announced))
	}
	if len(r.WinnersPerPhase) > 0 {
		fmt.Fprintf(t, "winners per phase\t%s\t\n", short(r.WinnersPerPhase))
	}
}

func mutex(t io.Writer, r *lab.Result) {
	m := r.MutexResult
	if m == nil {
		return
	}
	var order []string
	for _, e := range m.Entries[:min(8, len(m.Entries))] {
		order = append(order, fmt.Sprintf("%d at %d", e.Process, e.At))
	}
	if len(m.Entries) > 8 {
		order = append(order, "…")
	}
	if len(order) == 0 {
		order = []string{"none"}
	}
	fmt.Fprintf(t, "entries\t%d\t\n", len(m.Entries))
	fmt.Fprintf(t, "messages per entry\t%.2f\t\n", m.PerEntry.Messages)
	client, synchronization := "", ""
	if e := r.Undisturbed; e != nil && e.ClientDelay != nil {
		client, synchronization = span(*e.ClientDelay), span(*e.SynchronizationDelay)
	}
	fmt.Fprintf(t, "client delay, alone\t%s\t%s\n", delay(m.ClientDelay), client)
	fmt.Fprintf(t, "synchronization delay\t%s\t%s\n", delay(m.SynchronizationDelay), synchronization)
	inOrder := "not checked: too many"
	if m.Ordering != nil {
		inOrder = yes(*m.Ordering)
	}
	fmt.Fprintf(t, "in the order of requests\t%s\t\n", inOrder)
	if len(m.VotingSets) > 0 && len(m.VotingSets) <= 13 {
		var sets []string
		for _, set := range m.VotingSets {
			sets = append(sets, "{"+strings.Join(strs(set), " ")+"}")
		}
		for i, group := range slices.Collect(slices.Chunk(sets, 5)) {
			label := ""
			if i == 0 {
				label = "voting sets"
			}
			fmt.Fprintf(t, "%s\t%s\n", label, strings.Join(group, " "))
		}
	}
	fmt.Fprintf(t, "entered\t%s\n", strings.Join(order, ", "))
}

func delay(d *lab.Delay) string {
	switch {
	case d == nil:
		return "no sample"
	case d.Min == d.Max:
		return fmt.Sprint(d.Min)
	}
	return fmt.Sprintf("%d … %d, %.2f on average", d.Min, d.Max, d.Mean)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func verdict(w io.Writer, r *lab.Result) {
	hold := func(b bool) string {
		if b {
			return "holds"
		}
		return "BROKEN"
	}
	fmt.Fprintf(w, "safety    %s\nliveness  %s\n", hold(r.Safety), hold(r.Liveness))
	if r.Violation != nil {
		fmt.Fprintf(w, "          %s\n", r.Violation)
	}
	if e := r.Undisturbed; e != nil {
		fmt.Fprintf(w, "\nThe book: %s.\n  %s\n", e.Formula, e.Source)
	}
	if r.Note != "" {
		fmt.Fprintf(w, "Note: %s.\n", r.Note)
	}
}
