package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sweep"
)

func (a *app) sweep() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sweep ALGORITHM…",
		Short: "Count messages over many n and seeds, as CSV or as a plot with the book's range and a fit",
		Example: `  stoutlab sweep lcr hs --order worst -n 4..256 --seeds 1 -o svg --out sweep.svg
  stoutlab sweep lcr --order random -n 8,64,512 --seeds 20`,
		Long: `Count messages over many n and seeds, as CSV or as a plot with the book's range
and a fit. Without --order, rings are random where 0, 1, … n−1 is the best case.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return lab.NewUsage("name algorithms; 'stoutlab list' shows all")
			}
			return nil
		},
	}
	o := &lab.Options{}
	var sizes string
	var seeds int
	cmd.Flags().StringVarP(&sizes, "n", "n", "4..128", "numbers of processes: 4,8,16, or 4..64 in powers of two")
	cmd.Flags().IntVar(&seeds, "seeds", 5, "runs of each size, with seeds --seed, --seed + 1, …")
	settings(cmd, o)
	return a.command(cmd, []string{"csv", "svg"}, func(format string, names []string) error {
		ns, err := readSizes(sizes)
		if err != nil {
			return err
		}
		if seeds < 1 || seeds > 10_000 {
			return lab.NewUsage("--seeds %d: want 1 to 10000", seeds)
		}
		var all []sweep.Series
		for _, name := range names {
			run := *o
			run.Algorithm = name
			points, err := sweep.Runs(run, ns, seeds)
			if err != nil {
				return err
			}
			all = append(all, sweep.Series{Name: name, Points: points})
		}
		if format == "svg" {
			title := "Messages"
			if o.Order != "" {
				title += ", order " + o.Order
			}
			a.out.Write(sweep.Plot(title, all))
			return nil
		}
		for i, s := range all {
			csv := sweep.CSV(s.Name, s.Points)
			if i > 0 { // one header line is enough
				_, rest, _ := strings.Cut(string(csv), "\n")
				csv = []byte(rest)
			}
			a.out.Write(csv)
		}
		return nil
	})
}

func readSizes(text string) (sizes []int, err error) {
	wrong := lab.NewUsage("-n %q: want numbers of processes such as 4,8,16, or a range such as 4..64", text)
	if from, to, ranged := strings.Cut(text, ".."); ranged {
		low, err1 := strconv.Atoi(from)
		high, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || low < 1 || high < low || high > lab.MaxN {
			return nil, wrong
		}
		for n := low; n <= high; n *= 2 {
			sizes = append(sizes, n)
		}
		return sizes, nil
	}
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > lab.MaxN {
			return nil, wrong
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}
