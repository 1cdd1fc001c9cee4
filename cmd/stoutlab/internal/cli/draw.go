package cli

import (
	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/draw"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
)

func (a *app) draw() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "draw ALGORITHM",
		Short: "Draw a run as a space–time diagram, as text or SVG",
		Args:  oneAlgorithm,
	}
	return a.picture(cmd, map[string]func(*lab.Result) []byte{"text": draw.Text, "svg": draw.SVG}, "text", "svg")
}

func (a *app) play() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "play ALGORITHM",
		Short: "Write a page that plays a run, step by step, forwards and backwards",
		Args:  oneAlgorithm,
	}
	return a.picture(cmd, map[string]func(*lab.Result) []byte{"html": draw.HTML}, "html")
}

// maxDrawn is the largest number of processes for a useful drawing.
const maxDrawn = 64

// picture makes a command that shows a run. A run that breaks a property is
// shown like any other: the exit code is 0.
func (a *app) picture(cmd *cobra.Command, as map[string]func(*lab.Result) []byte, formats ...string) *cobra.Command {
	o := options(cmd)
	return a.command(cmd, formats, func(format string, args []string) error {
		o.Algorithm, o.Trace = args[0], draw.Room
		plan, err := lab.Prepare(*o)
		if err != nil {
			return err
		}
		if plan.Case.N > maxDrawn {
			return lab.NewUsage("-n %d: a drawing has room for at most %d processes", plan.Case.N, maxDrawn)
		}
		a.out.Write(as[format](plan.Run()))
		return nil
	})
}
