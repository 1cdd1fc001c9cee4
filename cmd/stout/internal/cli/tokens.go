package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "token",
		Short:      "Make, list and revoke access tokens",
		SuggestFor: []string{"tokens", "secret", "credential", "login"},
		Args:       cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("say what to do: stout token create, list or revoke")
		},
	}
	cmd.AddCommand(a.createTokenCommand(), a.listTokensCommand(), a.revokeTokenCommand())
	return cmd
}

func (a *app) createTokenCommand() *cobra.Command {
	var out, ttl, note string
	cmd := &cobra.Command{
		Use:   "create user:NAME",
		Short: "Make a token: who has it is user:NAME",
		Long: `Makes an access token. Whoever sends it is user:NAME to the cell. It is printed
this once, alone on standard output, or written into the file of --out. stout
takes it by --token-file, STOUT_AUTH_TOKEN_FILE or STOUT_AUTH_TOKEN, other
programs send it as Authorization: Bearer.

To exchange a token make another one, give it out, and revoke the first.

` + changeHelp,
		Example: `  stout token create user:billing --note 'host7' --ttl 90d --out billing-token
  stout --token-file billing-token access whoami`,
		SuggestFor:        []string{"new", "add", "make", "issue"},
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !lockapi.IsUser(args[0]) {
				return badPrincipal(args[0], "user:NAME")
			}
			req := lockapi.TokenRequest{Principal: args[0], Note: note}
			if ttl != "" {
				d, err := parseTTL(ttl)
				if err != nil {
					return err
				}
				req.TTLMS = d.Milliseconds()
			}
			if err := req.Validate(); err != nil {
				return usagef("%s", err.(*lockapi.Error).Detail)
			}
			return a.createToken(cmd.Context(), req, out)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", outUsage)
	flags.StringVar(&ttl, "ttl", "", "it ends by itself after this `duration`, such as 12h or 90d (default: never)")
	flags.StringVar(&note, "note", "", "`text` that lists show, such as where the token is used")
	_ = cmd.RegisterFlagCompletionFunc("ttl", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("note", cobra.NoFileCompletions)
	return cmd
}

// parseTTL reads a duration, which may be in days.
func parseTTL(text string) (time.Duration, error) {
	const most = lockapi.MaxTokenTTLMS * time.Millisecond
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		if err == nil && n > 0 && n <= uint64(most/(24*time.Hour)) {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond || d > most {
		return 0, usagef("--ttl is %q; it is a duration such as 12h or 90d, up to a hundred years", text)
	}
	return d, nil
}

func (a *app) createToken(ctx context.Context, req lockapi.TokenRequest, out string) error {
	s, err := newSecret(out)
	if err != nil {
		return err
	}
	req.TokenSHA256 = s.sum
	token, err := a.made(ctx, s, req.Principal, func(ctx context.Context, c client.Access) (lockapi.Token, error) { return c.CreateToken(ctx, req) })
	if err != nil {
		return aboutAccess(err)
	}
	return a.showSecret(s, token)
}

func (a *app) listTokensCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list [user:NAME]",
		Short: "List the tokens, without their secrets",
		Long: `Lists the tokens, all or those of user:NAME. Their secrets are nowhere in the
cell. Those that have ended by themselves are listed until they are revoked.

` + exitHelp,
		SuggestFor:        []string{"ls", "show"},
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			of := strings.Join(args, "")
			if len(args) > 0 && !lockapi.IsUser(of) {
				return badPrincipal(of, "user:NAME")
			}
			return a.listTokens(cmd.Context(), of)
		},
	}
}

func (a *app) listTokens(ctx context.Context, of string) error {
	tokens, err := a.tokens(ctx)
	if err != nil {
		return err
	}
	if of != "" {
		tokens = slices.DeleteFunc(tokens, func(t lockapi.Token) bool { return t.Principal != of })
	}
	switch {
	case a.ui.json:
		return a.ui.object(lockapi.TokenList{Tokens: tokens})
	case len(tokens) == 0 && of != "":
		a.ui.note("there is no token of %s", clean(of))
		return nil
	case len(tokens) == 0:
		a.ui.note("there is no token")
		return nil
	}
	slices.SortStableFunc(tokens, func(x, y lockapi.Token) int { return strings.Compare(x.Principal, y.Principal) })
	rows := make([][]string, 0, len(tokens))
	for _, t := range tokens {
		rows = append(rows, []string{clean(t.ID), clean(t.Principal), since(t.CreatedAt), a.endOf(t), truncate(clean(t.Note), 40)})
	}
	a.ui.table([]column{left("TOKEN"), left("OF"), right("AGE").sparing(1), left("ENDS IN"), left("NOTE").sparing(2)}, rows)
	return nil
}

// endOf is when a token ends by itself.
func (a *app) endOf(t lockapi.Token) string {
	switch {
	case t.ExpiresAt == nil:
		return "never"
	case ended(t):
		return a.ui.out.warn.Render("ended")
	}
	return human(time.Until(*t.ExpiresAt))
}

func ended(t lockapi.Token) bool { return t.ExpiresAt != nil && !t.ExpiresAt.After(time.Now()) }

func (a *app) tokens(ctx context.Context) ([]lockapi.Token, error) {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	tokens, err := collect(a.client.Access().Tokens(ctx))
	if err != nil {
		return nil, aboutAccess(err)
	}
	return tokens, nil
}

func (a *app) revokeTokenCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "revoke TOKEN...",
		Short: "End tokens at once",
		Long: `Ends the tokens with the ids TOKEN, which stout token list shows. Calls that
begin from then on are refused, those that wait and streams end. Sessions that
nobody can extend any more end with their leases, and their locks with them.

It asks first where no token of user:root would be left; --yes is for scripts.

Exit codes: 0 revoked, 1 there is no such token, or the cell said no, 2 wrong
usage, 3 the cell has no master, 4 no replica can be reached, 6 it is not known
whether it is done.`,
		SuggestFor:        []string{"rm", "remove", "delete", "del", "end"},
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeToken,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.revokeTokens(cmd.Context(), args, yes) },
	}
	addYes(cmd.Flags(), &yes)
	return cmd
}

// revokeTokens reads the tokens first: to revoke one that does not exist is no
// error to the cell, but it is to someone who mistyped an id.
func (a *app) revokeTokens(ctx context.Context, ids []string, yes bool) error {
	tokens, err := a.tokens(ctx)
	if err != nil {
		return err
	}
	var gone []lockapi.Token
	root, left := false, 0
	for _, t := range tokens {
		named := slices.Contains(ids, t.ID)
		if named {
			gone = append(gone, t)
		}
		if t.Principal == lockapi.PrincipalRoot && !ended(t) {
			root = root || named
			if !named && t.ExpiresAt == nil {
				left++
			}
		}
	}
	for _, id := range ids {
		if strings.HasPrefix(id, lockapi.SecretPrefix) {
			return usagef("that is a token's secret, not its id").hint("stout token list shows the ids; the secret is in your shell's history now")
		}
		if !slices.ContainsFunc(gone, func(t lockapi.Token) bool { return t.ID == id }) {
			return (&failure{code: exitFailed, message: fmt.Sprintf("there is no token %s: nothing was changed", clean(id))}).
				hint("stout token list shows the tokens")
		}
	}
	if root && left == 0 {
		err := a.warn(yes, "no token of user:root that lasts would be left",
			"No token of user:root that lasts would be left. While access is on and nobody else operates the cell, the way back is stoutd's --break-glass-token-file.", "Revoke it?")
		if err != nil {
			return err
		}
	}
	for _, t := range gone {
		if err := a.revokeToken(ctx, t); err != nil {
			return err
		}
	}
	if a.ui.json {
		return a.ui.object(lockapi.TokenList{Tokens: gone})
	}
	return nil
}

func (a *app) revokeToken(ctx context.Context, t lockapi.Token) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	if err := a.client.Access().RevokeToken(ctx, t.ID); err != nil {
		return aboutAccess(err)
	}
	if !a.ui.json {
		a.ui.printf("revoked token %s of %s\n", clean(t.ID), clean(t.Principal))
	}
	return nil
}
