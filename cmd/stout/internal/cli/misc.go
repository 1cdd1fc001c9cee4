package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check SEQUENCER",
		Short: "Ask whether the grant that a sequencer describes is still held",
		Long: `Asks whether the very grant that SEQUENCER tells of is held now. A sequencer is
what stout lock prints, and has in STOUT_SEQUENCER: mode:token:path.

Exit codes: 0 valid, 1 not valid, 2 wrong usage or no sequencer, 3 the cell has
no master, 4 no replica can be reached.`,
		SuggestFor:        []string{"verify", "validate"},
		Example:           `  stout check exclusive:42:/jobs/nightly && echo still ours`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.check(cmd.Context(), args[0]) },
	}
}

func (a *app) check(ctx context.Context, sequencer string) error {
	if _, err := lockapi.ParseSequencer(sequencer); err != nil {
		return usagef("%s", err.(*lockapi.Error).Detail).
			hint("a sequencer is like exclusive:42:/db/migrate")
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	answer, err := a.client.CheckSequencer(ctx, sequencer)
	if err != nil {
		return err
	}
	switch {
	case a.ui.quiet:
	case a.ui.json:
		err = a.ui.object(answer)
	case answer.Valid:
		a.ui.printf("%s\n", a.ui.out.good.Render("valid"))
	default:
		a.ui.printf("%s: %s\n", a.ui.out.fail.Render("not valid"), clean(answer.Reason))
	}
	if err == nil && !answer.Valid {
		return &failure{code: exitFailed}
	}
	return err
}

func (a *app) transferCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "transfer [REPLICA]",
		Short: "Hand mastership over to another replica",
		Long: `Hands mastership over to REPLICA, in good order: sessions and locks stay, and
the new master need not wait for the lease of the old one. Without REPLICA the
cell chooses.

` + changeHelp,
		Example: `  stout transfer
  stout transfer r2`,
		Args:              cobra.MaximumNArgs(1),
		SuggestFor:        []string{"failover", "promote", "stepdown", "step-down"},
		ValidArgsFunction: a.completeReplica,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if to != "" && to != args[0] {
					return usagef("%q and --to %q name two replicas", args[0], to)
				}
				to = args[0]
			}
			return a.transfer(cmd.Context(), to)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`id` of the replica that becomes master, the same as REPLICA")
	_ = cmd.RegisterFlagCompletionFunc("to", a.completeReplica)
	return cmd
}

func (a *app) transfer(ctx context.Context, to string) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	done, err := a.client.Transfer(ctx, to)
	if errors.Is(err, client.ErrOutcomeUnknown) && ctx.Err() != nil {
		return (&failure{code: exitUnknown, message: fmt.Sprintf("the cell did not say within %s whether mastership was handed over", human(a.opts.timeout))}).
			hint("stout status shows who is master; --timeout waits for longer")
	}
	if err != nil {
		return err
	}
	if a.ui.json {
		return a.ui.object(done)
	}
	a.ui.printf("%s is master\n", clean(done.Master))
	return nil
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Print the version of this program",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			v := buildinfo.Get()
			if a.ui.json {
				return a.ui.object(v)
			}
			a.ui.printf("stout %s\n", v)
			return nil
		},
	}
}
