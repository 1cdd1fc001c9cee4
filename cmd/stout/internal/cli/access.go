package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/internal/readfile"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) access() command {
	return command{
		use: "access", short: "Manage access rules, groups and permissions", like: "acl rbac auth permissions rules policy grant", about: aboutAccess,
		long: `Manages permissions. While access control is off, every caller may do
everything; rules, groups and tokens can still be made and checked.

A caller is user:NAME, proved by a token or a certificate, or anonymous. In a
list, * matches every authenticated user, and group:NAME the members of a group.
A rule belongs to a path and also applies below it. For each permission (read,
lock, write, admin), the nearest rule at or above a path that names it decides
alone. Without such a rule, only operators of the cell have the permission.`,
		example: `  stout access rules set /billing --read '*' --lock user:billing,group:ops
  stout access check /billing/leader user:billing
  stout access enable --out root-token`,
		sub: []command{
			{
				use: "rules", short: "List, show, set and remove the rules at paths", like: "rule acl acls", first: true,
				sub: []command{a.listRules(), a.showRule(), a.setRule(), a.removeRule()},
			}, {
				use: "quotas", short: "List, show, set and remove quotas of principals", like: "quota limit rate throttle", first: true,
				sub: []command{a.listQuotas(), a.showQuota(), a.setQuota(), a.removeQuota()},
			},
			a.groups(), a.cellAccess(), a.checkAccess(), a.whoAmI(), a.enableAccess(), a.disableAccess(),
		},
	}
}

// aboutAccess rewords errors of calls about access.
func aboutAccess(err error) error {
	refused, _ := errors.AsType[*lockapi.Error](err)
	switch {
	case refused == nil:
	case refused.Code == lockapi.CodeNotFound && refused.Detail != "", refused.Code == lockapi.CodeConflict, refused.Code == lockapi.CodeTooMany:
		return &failure{code: exitFailed, message: format.Clean(refused.Detail)}
	}
	return err
}

// hows describes the ways of authentication.
var hows = map[string]string{
	lockapi.HowToken: "by a token", lockapi.HowCertificate: "by a client certificate", lockapi.HowJWT: "by a JWT",
	lockapi.HowBreakGlass: "by the break-glass token", lockapi.HowNone: "no credential was sent",
}

func (a *app) whoAmI() command {
	return viewer(a, command{
		use: "whoami", short: "Show your principal and how it was authenticated", like: "who id me", exits: reads,
		long: `Shows your principal, as the cell sees it, and how it was authenticated: by a
token, a certificate or a JWT.`,
	}, func(ctx context.Context, _ []string) (lockapi.WhoAmI, error) {
		return a.admin.Access().WhoAmI(ctx)
	},
		func(me lockapi.WhoAmI) {
			how, known := hows[me.How]
			if !known {
				how = format.Clean(me.How)
			}
			a.ui.printf("%s, %s\n", format.Clean(me.Principal), how)
		})
}

type checkAccess struct {
	*app
	can string
}

func (a *app) checkAccess() command {
	c := &checkAccess{app: a}
	return command{
		run: c.run,
		use: "check PATH [PRINCIPAL]", short: "Show a caller's permissions at a path, with the rules that decide",
		long: `Shows the permissions of PRINCIPAL at PATH, and the rule that decides each.
PRINCIPAL is user:NAME or anonymous; the default is you. The current rules are
checked even while access control is off.

With --can, one permission is checked and the exit code is the answer.`,
		exits: readExits("shown (with --can: allowed)", "the cell refused (with --can: not allowed)"),
		example: `  stout access check /billing/leader user:billing
  stout access check /billing/leader --can lock`,
		like: "explain can-i may test", words: c.completeRule(), check: validRulePath,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.can, "can", "", "check this `permission`: "+strings.Join(permissions, ", "))
		},
		values: map[string]completer{"can": fixed(permissions...)},
	}
}

func badPrincipal(principal, what string) error {
	f := usagef("%q is not a principal; write %s", principal, what)
	if lockapi.IsUser(lockapi.PrefixUser + principal) {
		f.hint("did you mean user:%s ?", format.Clean(principal))
	}
	return f
}

func (c *checkAccess) run(ctx context.Context, args []string) error {
	principal := strings.Join(args[1:], "")
	if len(args) == 2 && lockapi.ValidatePrincipal(principal) != nil {
		return badPrincipal(principal, "user:NAME or anonymous")
	}
	if c.can != "" && !slices.Contains(permissions, c.can) {
		return usagef("--can is %q; it must be one of %s", c.can, strings.Join(permissions, ", "))
	}
	got, err := c.admin.Access().Check(ctx, args[0], principal)
	verdicts := map[string]lockapi.AccessVerdict{
		lockapi.PermissionRead: got.Read, lockapi.PermissionLock: got.Lock,
		lockapi.PermissionWrite: got.Write, lockapi.PermissionAdmin: got.Admin,
	}
	err = answer(c.ui, got, err, func(lockapi.AccessCheck) {
		switch {
		case c.can == "":
			c.printVerdicts(ctx, &got, permissions, verdicts)
		case !c.ui.quiet: // with --quiet the exit code is the answer
			c.printVerdicts(ctx, &got, []string{c.can}, verdicts)
		}
	})
	if err == nil && c.can != "" && !verdicts[c.can].Allowed {
		return &failure{code: exitFailed}
	}
	return err
}

func (c *checkAccess) printVerdicts(ctx context.Context, got *lockapi.AccessCheck, asked []string, verdicts map[string]lockapi.AccessVerdict) {
	book := &rulebook{access: c.admin.Access(), rules: map[string]*lockapi.AccessRule{}}
	c.ui.printf("%s, at %s:\n", format.Clean(got.Principal), format.Clean(got.Path))
	for _, p := range asked {
		v := verdicts[p]
		may, style := "may not "+p, c.ui.out.Fail
		if v.Allowed {
			may, style = "may "+p, c.ui.out.OK
		}
		pad := strings.Repeat(" ", len("may not admin")-len(may))
		c.ui.printf("  %s%s  %s\n", style(may), pad, book.reason(ctx, got.Principal, p, v))
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
	*app
	out, secretFile string
}

func (a *app) enableAccess() command {
	c := &enableAccess{app: a}
	return command{
		run: c.run,
		use: "enable", short: "Turn access control on", like: "on start", endless: true,
		long: `Turns access control on: from now on the cell checks each call against its
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
		exits: changeExits("enabled", "it was already on, or the answer was no"),
		example: `  stout access enable --out root-token
  STOUT_AUTH_TOKEN_FILE=root-token stout access whoami`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.out, "out", "", outUsage)
			f.StringVar(&c.secretFile, "secret-file", "", "`file` "+lockapi.EnableSecretFile+" of the master's data directory, for calls from another host")
			a.addYes(f)
		},
	}
}

func (c *enableAccess) run(ctx context.Context, _ []string) error {
	req := lockapi.EnableRequest{}
	if c.secretFile != "" {
		var err error
		if req.Secret, err = secretIn(new(readfile.Reader), c.secretFile); err == nil {
			err = req.Validate()
		}
		if err != nil {
			return usagef("--secret-file: %v", err)
		}
	}
	if !c.opts.yes {
		if err := c.confirm(ctx); err != nil {
			return err
		}
	}
	s, err := newSecret(c.out)
	if err != nil {
		return err
	}
	token, err := c.made(ctx, s, lockapi.PrincipalRoot, func(ctx context.Context) (lockapi.Token, error) {
		req.TokenSHA256 = s.sum
		return c.admin.Access().Enable(ctx, req)
	})
	if errors.Is(err, client.ErrConflict) {
		return &failure{code: exitFailed, message: "access control is already on"}
	}
	if refused, ok := errors.AsType[*lockapi.Error](err); ok && refused.Code == lockapi.CodePermissionDenied && refused.Principal == "" {
		return (&failure{code: exitFailed, message: format.Clean(refused.Detail)}).hint("use a copy of that file: --secret-file FILE; or run this on the replica's host, with 127.0.0.1")
	}
	if err != nil {
		return err
	}
	c.ui.note("access control is on: each call is now checked")
	return c.showSecret(s, token)
}

func (c *enableAccess) confirm(ctx context.Context) error {
	const why = "enabling access control stops programs without a credential"
	if err := c.someoneToAsk(why); err != nil {
		return err
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	access := c.admin.Access()
	rules, err := collect(access.Rules(ctx, ""))
	if err != nil {
		return err
	}
	tokens, err := collect(access.Tokens(ctx))
	if err != nil {
		return err
	}
	lists, err := access.Cell(ctx)
	if err != nil {
		return err
	}
	return c.warn(why, fmt.Sprintf("The cell will check each call against %s and %s. Its operators are %s and %s. "+
		"A program without a credential will have only the permissions of anonymous, and loses its locks when its session's lease ends.",
		format.Plural(len(rules), "rule"), format.Plural(len(tokens), "token"), lockapi.PrincipalRoot, entries(lists.Operate, 5)), "Enable access control?")
}

func (a *app) disableAccess() command {
	return command{
		use: "disable", short: "Turn access control off", like: "off stop", endless: true,
		long: `Turns access control off: every caller that reaches the cell may do everything.
Rules, groups and tokens stay for the next time. The command asks first; --yes
skips the question.`,
		exits: changeExits("disabled", "the cell refused, or the answer was no"),
		flags: a.addYes,
		run: func(ctx context.Context, _ []string) error {
			err := a.warn("disabling access control lets every caller do everything",
				"Every caller that reaches the cell will be able to read and write all files, take and release all locks, and end any session. "+
					"Rules, groups and tokens stay for the next time.", "Disable access control?")
			if err != nil {
				return err
			}
			return a.remove(ctx, a.admin.Access().Disable, func() { a.ui.printf("access control is off: every caller may do everything\n") })
		},
	}
}
