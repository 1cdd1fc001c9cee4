package access

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/lockapi"
)

type tokens struct{ *app.App }

func tokenCommand(a *app.App) app.Command {
	t := &tokens{a}
	return app.Command{
		Use: "token", Short: "Make, list and revoke access tokens", SuggestFor: "tokens secret credential login", Explain: aboutAccess,
		Sub: []app.Command{t.createToken(), t.listTokens(), t.revokeTokens()},
	}
}

func (a *tokens) createToken() app.Command {
	var out, ttl, note string
	return app.Command{
		Use: "create user:NAME", Short: "Make an access token for user:NAME", SuggestFor: "new add make issue", Check: validUser, Unlimited: true,
		Long: `Makes an access token for user:NAME. The token is printed once, alone on
standard output, or written to the file named by --out. Use it with
--token-file, STOUT_AUTH_TOKEN_FILE or STOUT_AUTH_TOKEN; other programs send it
as Authorization: Bearer.

To replace a token, make another one, distribute it, and revoke the first.`,
		Exits: exit.Changes,
		Example: `  stout token create user:billing --note 'host7' --ttl 90d --out billing-token
  stout --token-file billing-token access whoami`,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&out, "out", "", outUsage)
			f.StringVar(&ttl, "ttl", "", "expire after this `duration`, such as 12h or 90d (default: never)")
			f.StringVar(&note, "note", "", "`text` shown in lists, such as where the token is used")
		},
		Run: func(ctx context.Context, args []string) error {
			req := lockapi.TokenRequest{Principal: args[0], Note: note}
			if ttl != "" {
				d, err := parseTTL(ttl)
				if err != nil {
					return err
				}
				req.TTLMS = d.Milliseconds()
			}
			if err := req.Validate(); err != nil {
				return exit.Usagef("%s", err.(*lockapi.Error).Detail)
			}
			s, err := newSecret(a.App, out)
			if err != nil {
				return err
			}
			req.TokenSHA256 = s.sum
			token, err := s.made(ctx, req.Principal, func(ctx context.Context) (lockapi.Token, error) {
				return a.Admin.Access().CreateToken(ctx, req)
			})
			if err != nil {
				return err
			}
			return s.show(token)
		},
	}
}

func validUser(principal string) error {
	if !lockapi.IsUser(principal) {
		return badPrincipal(principal, "user:NAME")
	}
	return nil
}

// parseTTL parses a duration, which may be in days.
func parseTTL(text string) (time.Duration, error) {
	const most = lockapi.MaxTokenTTLMS * time.Millisecond
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < time.Millisecond || d > most {
		return 0, exit.Usagef("--ttl is %q; it must be a duration such as 12h or 90d, up to a hundred years", text)
	}
	return d, nil
}

func (a *tokens) listTokens() app.Command {
	of := ""
	return app.Viewer(a.App, app.Command{
		Use: "list [user:NAME]", Short: "List the tokens, without their secrets", SuggestFor: "ls show", Exits: exit.Reads, Check: validUser,
		Long: `Lists all tokens, or the tokens of user:NAME. The cell does not store their
secrets. Expired tokens are listed until they are revoked.`,
	}, func(ctx context.Context, args []string) (l lockapi.TokenList, err error) {
		of = strings.Join(args, "")
		l.Tokens, err = app.Collect(a.Admin.Access().Tokens(ctx))
		if of != "" {
			l.Tokens = slices.DeleteFunc(l.Tokens, func(t lockapi.Token) bool { return t.Principal != of })
		}
		return l, err
	}, func(l lockapi.TokenList) {
		none := "there are no tokens" + map[bool]string{true: " of " + format.Clean(of)}[of != ""]
		slices.SortStableFunc(l.Tokens, func(x, y lockapi.Token) int { return strings.Compare(x.Principal, y.Principal) })
		ui.List(a.UI, l.Tokens, none, []ui.Column{ui.Left("TOKEN"), ui.Left("OF"), ui.Right("AGE").Drop(1), ui.Left("ENDS IN"), ui.Left("NOTE").Drop(2)}, func(t lockapi.Token) []string {
			ends := "never"
			switch {
			case ended(t):
				ends = a.UI.Out.Warn("ended")
			case t.ExpiresAt != nil:
				ends = format.Human(time.Until(*t.ExpiresAt))
			}
			return []string{format.Clean(t.ID), format.Clean(t.Principal), format.Since(t.CreatedAt), ends, format.Truncate(format.Clean(t.Note), 40)}
		})
	})
}

func ended(t lockapi.Token) bool { return t.ExpiresAt != nil && !t.ExpiresAt.After(time.Now()) }

func (a *tokens) revokeTokens() app.Command {
	return app.Command{
		Run: a.revoke,
		Use: "revoke TOKEN...", Short: "End tokens at once", SuggestFor: "rm remove delete del end", Complete: completeToken(a.App), CompleteAll: true, Unlimited: true,
		Long: `Ends the tokens with these ids, as listed by stout token list. New calls with
them are refused; waiting calls and streams end. A session that can no longer be
extended ends with its lease, and releases its locks.

The token in use is revoked last. Several tokens of its user are refused,
because the cell does not report which one is in use. The command asks first if
no lasting token of user:root would be left; --yes skips the question.`,
		Exits: exit.ChangeExits("revoked", "there is no such token, or the cell refused"),
		Flags: a.AddYes,
	}
}

// revoke reads the tokens first. The cell accepts the revocation of a missing
// token, but for a person that is a typing error.
func (a *tokens) revoke(ctx context.Context, ids []string) error {
	reading, cancel := a.WithTimeout(ctx)
	defer cancel()
	tokens, err := app.Collect(a.Admin.Access().Tokens(reading))
	if err != nil {
		return err
	}
	var gone []lockapi.Token
	root, left := false, false
	for _, t := range tokens {
		named := slices.Contains(ids, t.ID)
		if named {
			gone = append(gone, t)
		}
		if t.Principal == lockapi.PrincipalRoot && !ended(t) {
			root = root || named
			left = left || !named && t.ExpiresAt == nil
		}
	}
	for _, id := range ids {
		if strings.HasPrefix(id, lockapi.SecretPrefix) {
			return exit.Usagef("that is a token's secret, not its id").Hint("stout token list shows the ids; your shell's history now has the secret")
		}
		if !slices.ContainsFunc(gone, func(t lockapi.Token) bool { return t.ID == id }) {
			return exit.Errorf(exit.Failed, "there is no token %s: nothing was changed", format.Clean(id)).
				Hint("stout token list shows the tokens")
		}
	}
	if root && !left {
		err := a.Warn("no lasting token of user:root would be left",
			"No lasting token of user:root would be left. If there is no other operator while access control is on, only stoutd's --break-glass-token-file regains control.", "Revoke it?")
		if err != nil {
			return err
		}
	}
	if gone, err = a.ownLast(reading, gone); err != nil {
		return err
	}
	for _, t := range gone {
		writing, cancel := a.WithTimeout(ctx)
		err := a.Admin.Access().RevokeToken(writing, t.ID)
		cancel()
		if err != nil {
			return err
		}
		if !a.UI.JSON {
			a.UI.Printf("revoked token %s of %s\n", format.Clean(t.ID), format.Clean(t.Principal))
		}
	}
	return ui.Answer(a.UI, lockapi.TokenList{Tokens: gone}, nil, func(lockapi.TokenList) {})
}

// ownLast moves the token in use to the end, because the cell accepts no call
// after it. The cell reports only the user of that token, so several tokens of
// this user are refused.
func (a *tokens) ownLast(ctx context.Context, gone []lockapi.Token) ([]lockapi.Token, error) {
	if len(gone) < 2 || a.Token == nil {
		return gone, nil
	}
	me, err := a.Admin.Access().WhoAmI(ctx)
	if err != nil || me.How != lockapi.HowToken {
		return gone, err
	}
	others := slices.DeleteFunc(slices.Clone(gone), func(t lockapi.Token) bool { return t.Principal == me.Principal })
	own := slices.DeleteFunc(gone, func(t lockapi.Token) bool { return t.Principal != me.Principal })
	if len(own) > 1 {
		return nil, exit.Errorf(exit.Failed, "%d of these tokens belong to %s, and one may be the token in use: nothing was changed", len(own), format.Clean(me.Principal)).
			Hint("revoke these one at a time, or use a token of another operator")
	}
	return append(others, own...), nil
}

// secret is the secret of a token about to be made. It is generated here and
// written to its file before the cell is called. So a lost answer does not lose
// it, and no answer contains it.
type secret struct {
	*app.App
	text, sum string
	file      string // "" for standard output
}

const outUsage = "write the token to this new `file`, readable by its owner only, instead of standard output"

func newSecret(a *app.App, file string) (*secret, error) {
	s := &secret{App: a, file: file}
	s.text, s.sum = admin.NewSecret()
	if file == "" {
		return s, nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, os.ErrExist):
		return nil, exit.Usagef("--out %s: the file exists and is not overwritten", format.Clean(file))
	case err != nil:
		return nil, exit.Usagef("--out: %v", err)
	}
	_, err = f.WriteString(s.text + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		s.forget()
		return nil, exit.Errorf(exit.Failed, "%v", err)
	}
	return s, nil
}

// forget removes the file of a secret that is not in use.
func (s *secret) forget() {
	if s.file != "" {
		_ = os.Remove(s.file)
	}
}

// made makes a token of the secret by a call. If the outcome is unknown, it
// tries the secret at the cell to find out.
func (s *secret) made(ctx context.Context, principal string, call func(context.Context) (lockapi.Token, error)) (lockapi.Token, error) {
	asked, cancel := s.WithTimeout(ctx)
	defer cancel()
	token, err := call(asked)
	if err == nil {
		return token, nil
	}
	if !errors.Is(err, client.ErrOutcomeUnknown) {
		s.forget()
		return token, err
	}
	if me, err := s.principal(ctx); err == nil && me == principal {
		return lockapi.Token{Principal: principal}, nil
	}
	// The secret is kept even if the cell refuses it: a replica that hung may
	// forward the call later.
	f := exit.Errorf(exit.Unknown, "it is not known whether the token was made: the cell did not answer in time")
	if s.file == "" {
		_ = ui.Answer(s.UI, lockapi.Token{Principal: principal, Secret: s.text}, nil, func(lockapi.Token) { s.UI.Printf("%s\n", s.text) })
		return token, f.Hint("the printed token may be valid, now or later; stout access whoami --token-file FILE checks it")
	}
	return token, f.Hint("the token in %s may be valid, now or later; stout access whoami --token-file %s checks it", format.Clean(s.file), format.Clean(s.file))
}

// principal returns the principal that the cell assigns to the secret.
func (s *secret) principal(ctx context.Context) (string, error) {
	c, err := client.Config{
		URLs: s.Options.Servers, UserAgent: "stout/" + buildinfo.Version(), TLSSource: s.TLSSource(),
		Token: func(context.Context) (string, error) { return s.text, nil },
	}.New()
	if err != nil {
		return "", err
	}
	defer c.Close()
	ctx, cancel := s.WithTimeout(ctx)
	defer cancel()
	me, err := admin.New(c).Access().WhoAmI(ctx)
	return me.Principal, err
}

// show prints a new token: its secret is the answer, unless it is in a
// file.
func (s *secret) show(token lockapi.Token) error {
	if s.UI.JSON {
		if s.file == "" {
			token.Secret = s.text
		}
		return s.UI.Object(token)
	}
	about, until := "the token of "+format.Clean(token.Principal), ""
	if token.ExpiresAt != nil {
		until = ", until " + token.ExpiresAt.UTC().Format("2006-01-02 15:04 MST")
	}
	if token.ID != "" {
		about += fmt.Sprintf(" (id %s%s)", format.Clean(token.ID), until)
	}
	if s.file != "" {
		s.UI.Note("%s is in %s", about, format.Clean(s.file))
		return nil
	}
	s.UI.Printf("%s\n", s.text)
	s.UI.Note("%s is shown only once", about)
	return nil
}

func completeToken(a *app.App) app.Completer {
	return app.Offers(a, func(ctx context.Context, _ string) iter.Seq2[lockapi.Token, error] {
		return a.Admin.Access().Tokens(ctx)
	}, func(t lockapi.Token) (string, string) {
		return t.ID, strings.TrimSpace(strings.TrimPrefix(t.Principal, lockapi.PrefixUser) + " " + t.Note)
	})
}
