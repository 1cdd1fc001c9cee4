// Package access has the commands about permissions: rules, groups, quotas and
// tokens. Whether a caller has a right is decided in the cell.
package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/internal/readfile"
	"github.com/stoutlock/stout/lockapi"
)

// Commands returns the commands of this package.
func Commands(a *app.App) []app.Command {
	return []app.Command{accessCommand(a), tokenCommand(a)}
}

func accessCommand(a *app.App) app.Command {
	rules, groups, quotas := &rules{a}, &groups{a}, &quotas{a}
	return app.Command{
		Use: "access", Short: "Manage access rules, groups and permissions", SuggestFor: "acl rbac auth permissions rules policy grant", Explain: aboutAccess,
		Long: `Manages permissions. While access control is off, every caller may do
everything; rules, groups and tokens can still be made and checked.

A caller is user:NAME, proved by a token or a certificate, or anonymous. In a
list, * matches every authenticated user, and group:NAME the members of a group.
A rule belongs to a path and also applies below it. For each permission (read,
lock, write, admin), the nearest rule at or above a path that names it decides
alone. Without such a rule, only operators of the cell have the permission.`,
		Example: `  stout access rules set /billing --read '*' --lock user:billing,group:ops
  stout access check /billing/leader user:billing
  stout access enable --out root-token`,
		Sub: []app.Command{
			{
				Use: "rules", Short: "List, show, set and remove the rules at paths", SuggestFor: "rule acl acls", First: true,
				Sub: []app.Command{rules.listRules(), rules.showRule(), rules.setRule(), rules.removeRule()},
			}, {
				Use: "quotas", Short: "List, show, set and remove quotas of principals", SuggestFor: "quota limit rate throttle", First: true,
				Sub: []app.Command{quotas.listQuotas(), quotas.showQuota(), quotas.setQuota(), quotas.removeQuota()},
			},
			groups.command(), rules.cellAccess(), (&checkAccess{App: a}).command(), whoAmI(a), (&enableAccess{App: a}).command(), disableAccess(a),
		},
	}
}

// aboutAccess rewords errors of calls about access.
func aboutAccess(err error) error {
	refused, _ := errors.AsType[*lockapi.Error](err)
	switch {
	case refused == nil:
	case refused.Code == lockapi.CodeNotFound && refused.Detail != "", refused.Code == lockapi.CodeConflict, refused.Code == lockapi.CodeTooMany:
		return exit.Errorf(exit.Failed, "%s", format.Clean(refused.Detail))
	}
	return err
}

// hows describes the ways of authentication.
var hows = map[string]string{
	lockapi.HowToken: "by a token", lockapi.HowCertificate: "by a client certificate", lockapi.HowJWT: "by a JWT",
	lockapi.HowBreakGlass: "by the break-glass token", lockapi.HowNone: "no credential was sent",
}

func whoAmI(a *app.App) app.Command {
	return app.Viewer(a, app.Command{
		Use: "whoami", Short: "Show your principal and how it was authenticated", SuggestFor: "who id me", Exits: exit.Reads,
		Long: `Shows your principal, as the cell sees it, and how it was authenticated: by a
token, a certificate or a JWT.`,
	}, func(ctx context.Context, _ []string) (lockapi.WhoAmI, error) {
		return a.Admin.Access().WhoAmI(ctx)
	},
		func(me lockapi.WhoAmI) {
			how, known := hows[me.How]
			if !known {
				how = format.Clean(me.How)
			}
			a.UI.Printf("%s, %s\n", format.Clean(me.Principal), how)
		})
}

type checkAccess struct {
	*app.App
	can string
}

func (c *checkAccess) command() app.Command {
	return app.Command{
		Run: c.run,
		Use: "check PATH [PRINCIPAL]", Short: "Show a caller's permissions at a path, with the rules that decide",
		Long: `Shows the permissions of PRINCIPAL at PATH, and the rule that decides each.
PRINCIPAL is user:NAME or anonymous; the default is you. The current rules are
checked even while access control is off.

With --can, one permission is checked and the exit code is the answer.`,
		Exits: exit.ReadExits("shown (with --can: allowed)", "the cell refused (with --can: not allowed)"),
		Example: `  stout access check /billing/leader user:billing
  stout access check /billing/leader --can lock`,
		SuggestFor: "explain can-i may test", Complete: completeRule(c.App), Check: validRulePath,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.can, "can", "", "check this `permission`: "+strings.Join(permissions, ", "))
		},
		CompleteFlags: map[string]app.Completer{"can": app.Words(permissions...)},
	}
}

func badPrincipal(principal, what string) error {
	f := exit.Usagef("%q is not a principal; write %s", principal, what)
	if lockapi.IsUser(lockapi.PrefixUser + principal) {
		f.Hint("did you mean user:%s ?", format.Clean(principal))
	}
	return f
}

func (c *checkAccess) run(ctx context.Context, args []string) error {
	principal := strings.Join(args[1:], "")
	if len(args) == 2 && lockapi.ValidatePrincipal(principal) != nil {
		return badPrincipal(principal, "user:NAME or anonymous")
	}
	if c.can != "" && !slices.Contains(permissions, c.can) {
		return exit.Usagef("--can is %q; it must be one of %s", c.can, strings.Join(permissions, ", "))
	}
	got, err := c.Admin.Access().Check(ctx, args[0], principal)
	verdicts := map[string]lockapi.AccessVerdict{
		lockapi.PermissionRead: got.Read, lockapi.PermissionLock: got.Lock,
		lockapi.PermissionWrite: got.Write, lockapi.PermissionAdmin: got.Admin,
	}
	err = ui.Answer(c.UI, got, err, func(lockapi.AccessCheck) {
		switch {
		case c.can == "":
			c.printVerdicts(ctx, &got, permissions, verdicts)
		case !c.UI.Quiet: // with --quiet the exit code is the answer
			c.printVerdicts(ctx, &got, []string{c.can}, verdicts)
		}
	})
	if err == nil && c.can != "" && !verdicts[c.can].Allowed {
		return &exit.Failure{Code: exit.Failed}
	}
	return err
}

func (c *checkAccess) printVerdicts(ctx context.Context, got *lockapi.AccessCheck, asked []string, verdicts map[string]lockapi.AccessVerdict) {
	book := &rulebook{access: c.Admin.Access(), rules: map[string]*lockapi.AccessRule{}}
	c.UI.Printf("%s, at %s:\n", format.Clean(got.Principal), format.Clean(got.Path))
	for _, p := range asked {
		v := verdicts[p]
		may, style := "may not "+p, c.UI.Out.Fail
		if v.Allowed {
			may, style = "may "+p, c.UI.Out.OK
		}
		pad := strings.Repeat(" ", len("may not admin")-len(may))
		c.UI.Printf("  %s%s  %s\n", style(may), pad, book.reason(ctx, got.Principal, p, v))
	}
}

// rulebook reads the rules and groups that verdicts name, each once. Reasons
// omit rules that the caller may not read or that are gone.
type rulebook struct {
	access admin.Access
	rules  map[string]*lockapi.AccessRule
	groups map[string][]string // members by name; nil until read
}

// reason explains why a principal has a permission or lacks it.
func (b *rulebook) reason(ctx context.Context, principal, permission string, v lockapi.AccessVerdict) string {
	switch {
	case v.Rule == nil && v.Allowed:
		return "as an operator of the cell"
	case v.Rule == nil:
		return fmt.Sprintf("no rule covers %s here: only operators of the cell may", permission)
	}
	at := "the rule at " + format.Clean(*v.Rule)
	rule, known := b.rules[*v.Rule]
	if !known {
		if r, err := b.access.Rule(ctx, *v.Rule); err == nil {
			rule = &r
		}
		b.rules[*v.Rule] = rule
	}
	if rule == nil {
		return "by " + at
	}
	list := *listOf(&rule.AccessLists, permission)
	if !v.Allowed {
		switch {
		case len(list) == 0:
			return at + " allows no callers"
		case slices.Equal(list, []string{lockapi.AllPrincipals}):
			return at + " allows authenticated users only"
		}
		return fmt.Sprintf("%s allows %s", at, entries(list, 6))
	}
	switch entry := b.entryFor(ctx, list, principal); entry {
	case "":
		return "by " + at
	case principal:
		return fmt.Sprintf("%s names %s", at, format.Clean(principal))
	case lockapi.AllPrincipals:
		return at + " allows every authenticated user"
	default:
		return fmt.Sprintf("%s names %s, which contains %s", at, format.Clean(entry), format.Clean(principal))
	}
}

// entryFor returns the list entry that covers a principal, or "".
func (b *rulebook) entryFor(ctx context.Context, list []string, principal string) string {
	switch {
	case slices.Contains(list, principal):
		return principal
	case slices.Contains(list, lockapi.AllPrincipals) && principal != lockapi.PrincipalAnonymous:
		return lockapi.AllPrincipals
	}
	for _, entry := range list {
		if b.contains(ctx, entry, principal, nil) {
			return entry
		}
	}
	return ""
}

// contains reports whether a group contains a principal, directly or through
// other groups. seen are the groups around it.
func (b *rulebook) contains(ctx context.Context, group, principal string, seen []string) bool {
	name, isGroup := strings.CutPrefix(group, lockapi.PrefixGroup)
	if !isGroup || slices.Contains(seen, name) {
		return false
	}
	if b.groups == nil {
		b.groups = make(map[string][]string)
		groups, _ := b.access.Groups(ctx)
		for _, g := range groups {
			b.groups[g.Name] = g.Members
		}
	}
	return slices.ContainsFunc(b.groups[name], func(member string) bool {
		return member == principal || b.contains(ctx, member, principal, append(seen, name))
	})
}

type enableAccess struct {
	*app.App
	out, secretFile string
}

func (c *enableAccess) command() app.Command {
	return app.Command{
		Run: c.run,
		Use: "enable", Short: "Turn access control on", SuggestFor: "on start", Unlimited: true,
		Long: `Turns access control on: from now on the cell checks each call against its
rules, groups and tokens. This also makes a token of user:root, which may do
everything. The token is printed once, or written to the file named by --out
before the cell is called. Keep it safe: without it, only stoutd's
--break-glass-token-file regains control.

Make the rules, the groups and your programs' tokens first; stout access check
works while access control is off. Afterwards a program without a credential has
only the permissions of anonymous. It cannot extend its session either, so it
loses its locks when its lease ends.

On a host other than the master's own, this needs --secret-file: a copy of
enable.secret from the master's data directory, which each start rewrites. The
error names the replica.

The command shows the consequences and asks; --yes skips the question.`,
		Exits: exit.ChangeExits("enabled", "it was already on, or the answer was no"),
		Example: `  stout access enable --out root-token
  STOUT_AUTH_TOKEN_FILE=root-token stout access whoami`,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.out, "out", "", outUsage)
			f.StringVar(&c.secretFile, "secret-file", "", "`file` "+lockapi.EnableSecretFile+" of the master's data directory, for calls from another host")
			c.AddYes(f)
		},
	}
}

func (c *enableAccess) run(ctx context.Context, _ []string) error {
	req := lockapi.EnableRequest{}
	if c.secretFile != "" {
		var err error
		if req.Secret, err = app.ReadSecret(new(readfile.Reader), c.secretFile); err == nil {
			err = req.Validate()
		}
		if err != nil {
			return exit.Usagef("--secret-file: %v", err)
		}
	}
	if !c.Options.Yes {
		if err := c.confirm(ctx); err != nil {
			return err
		}
	}
	s, err := newSecret(c.App, c.out)
	if err != nil {
		return err
	}
	token, err := s.made(ctx, lockapi.PrincipalRoot, func(ctx context.Context) (lockapi.Token, error) {
		req.TokenSHA256 = s.sum
		return c.Admin.Access().Enable(ctx, req)
	})
	if errors.Is(err, client.ErrConflict) {
		return exit.Errorf(exit.Failed, "access control is already on")
	}
	if refused, ok := errors.AsType[*lockapi.Error](err); ok && refused.Code == lockapi.CodePermissionDenied && refused.Principal == "" {
		return exit.Errorf(exit.Failed, "%s", format.Clean(refused.Detail)).Hint("use a copy of that file: --secret-file FILE; or run this on the replica's host, with 127.0.0.1")
	}
	if err != nil {
		return err
	}
	c.UI.Note("access control is on: each call is now checked")
	return s.show(token)
}

func (c *enableAccess) confirm(ctx context.Context) error {
	const why = "enabling access control stops programs without a credential"
	if err := c.MayAsk(why); err != nil {
		return err
	}
	ctx, cancel := c.WithTimeout(ctx)
	defer cancel()
	access := c.Admin.Access()
	rules, err := app.Collect(access.Rules(ctx, ""))
	if err != nil {
		return err
	}
	tokens, err := app.Collect(access.Tokens(ctx))
	if err != nil {
		return err
	}
	lists, err := access.Cell(ctx)
	if err != nil {
		return err
	}
	return c.Warn(why, fmt.Sprintf("The cell will check each call against %s and %s. Its operators are %s and %s. "+
		"A program without a credential will have only the permissions of anonymous, and loses its locks when its session's lease ends.",
		format.Plural(len(rules), "rule"), format.Plural(len(tokens), "token"), lockapi.PrincipalRoot, entries(lists.Operate, 5)), "Enable access control?")
}

func disableAccess(a *app.App) app.Command {
	return app.Command{
		Use: "disable", Short: "Turn access control off", SuggestFor: "off stop", Unlimited: true,
		Long: `Turns access control off: every caller that reaches the cell may do everything.
Rules, groups and tokens stay for the next time. The command asks first; --yes
skips the question.`,
		Exits: exit.ChangeExits("disabled", "the cell refused, or the answer was no"),
		Flags: a.AddYes,
		Run: func(ctx context.Context, _ []string) error {
			err := a.Warn("disabling access control lets every caller do everything",
				"Every caller that reaches the cell will be able to read and write all files, take and release all locks, and end any session. "+
					"Rules, groups and tokens stay for the next time.", "Disable access control?")
			if err != nil {
				return err
			}
			return remove(ctx, a, a.Admin.Access().Disable, func() { a.UI.Printf("access control is off: every caller may do everything\n") })
		},
	}
}
