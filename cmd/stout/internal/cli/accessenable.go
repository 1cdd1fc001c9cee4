package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/readfile"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) enableCommand() *cobra.Command {
	var out, secretFile string
	var yes bool
	cmd := &cobra.Command{
		Use:   "enable",
		Short: "Have the cell judge its callers, from now on",
		Long: `Has the cell judge each call from now on, by the rules, groups and tokens that
there are, and makes a token of user:root, which may do everything. The token is
printed this once, or written into the file of --out before the cell is asked.
Keep it well: without it the way back is stoutd's --break-glass-token-file.

Make the rules, the groups and the tokens of your programs before: they can be
checked with stout access check while access is off. A program without a
credential can then do nothing that no rule lets anonymous do. Its session can't
be extended either, so what it holds is lost when its lease ends.

From another host than the replica's own it takes --secret-file: a copy of
enable.secret in the data directory of the master, which each start writes anew.
The refusal names the replica whose file it is.

It says first what will be, and asks; --yes is for scripts.

Exit codes: 0 enabled, 1 it was on already or nobody said yes, 2 wrong usage, 3
the cell has no master, 4 no replica can be reached, 6 it is not known whether
it is done.`,
		Example: `  stout access enable --out root-token
  STOUT_AUTH_TOKEN_FILE=root-token stout access whoami`,
		SuggestFor:        []string{"on", "start"},
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.enable(cmd.Context(), out, secretFile, yes) },
	}
	cmd.Flags().StringVar(&out, "out", "", outUsage)
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "the `file` "+lockapi.EnableSecretFile+" of the master's data directory, for a call from another host")
	addYes(cmd.Flags(), &yes)
	return cmd
}

func (a *app) enable(ctx context.Context, out, secretFile string, yes bool) error {
	req := lockapi.EnableRequest{}
	if secretFile != "" {
		var err error
		if req.Secret, err = secretIn(new(readfile.Reader), secretFile); err == nil {
			err = req.Validate()
		}
		if err != nil {
			return usagef("--secret-file: %v", err)
		}
	}
	if !yes {
		if err := a.confirmEnable(ctx); err != nil {
			return err
		}
	}
	s, err := newSecret(out)
	if err != nil {
		return err
	}
	token, err := a.made(ctx, s, lockapi.PrincipalRoot, func(ctx context.Context, c client.Access) (lockapi.Token, error) {
		req.TokenSHA256 = s.sum
		return c.Enable(ctx, req)
	})
	if errors.Is(err, client.ErrConflict) {
		return &failure{code: exitFailed, message: "access is on already"}
	}
	if refused, ok := errors.AsType[*lockapi.Error](err); ok && refused.Code == lockapi.CodePermissionDenied && refused.Principal == "" {
		return (&failure{code: exitFailed, message: clean(refused.Detail)}).hint("give a copy of it: --secret-file FILE; or call that replica from its own host, by 127.0.0.1")
	}
	if err != nil {
		return aboutAccess(err)
	}
	a.ui.note("access is on: each call is judged from now on")
	return a.showSecret(s, token)
}

// confirmEnable says what there is to judge by, and asks.
func (a *app) confirmEnable(ctx context.Context) error {
	const why = "to enable access ends what programs without a credential do"
	if err := a.someoneToAsk(why); err != nil {
		return err
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	rules, err := collect(a.client.Access().Rules(ctx, ""))
	if err != nil {
		return aboutAccess(err)
	}
	tokens, err := collect(a.client.Access().Tokens(ctx))
	if err != nil {
		return aboutAccess(err)
	}
	lists, err := a.client.Access().Cell(ctx)
	if err != nil {
		return aboutAccess(err)
	}
	return a.warn(false, why, fmt.Sprintf("From then on each call is judged, by %s and %s. The cell is operated by %s and %s. "+
		"A program without a credential can do nothing that no rule lets anonymous do; what it holds is lost when its session's lease ends.",
		plural(len(rules), "rule"), plural(len(tokens), "token"), lockapi.PrincipalRoot, entries(lists.Operate, 5)), "Enable access?")
}

func (a *app) disableCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "disable",
		Short: "Let every caller do everything again",
		Long: `Lets everybody who reaches the cell do everything again. Rules, groups and
tokens stay, for the next time. It asks first; --yes is for scripts.

Exit codes: 0 disabled, 1 the cell said no, or nobody said yes, 2 wrong usage, 3
the cell has no master, 4 no replica can be reached, 6 it is not known whether
it is done.`,
		SuggestFor:        []string{"off", "stop"},
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := a.warn(yes, "to disable access lets everybody do everything",
				"From then on everybody who reaches the cell may do everything: read and write all files, take and release all locks, end others' sessions. "+
					"Rules, groups and tokens stay, for the next time.", "Disable access?")
			if err != nil {
				return err
			}
			if err := a.removed(cmd.Context(), func(ctx context.Context, c client.Access) error { return c.Disable(ctx) }); err != nil || a.ui.json {
				return err
			}
			a.ui.printf("access is off: everybody may do everything\n")
			return nil
		},
	}
	addYes(cmd.Flags(), &yes)
	return cmd
}
