package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/readfile"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) access() runner {
	return group{
		use: "access", short: "Say and show who may do what", like: "acl rbac auth permissions rules policy grant", about: aboutAccess,
		long: `Says and shows who may do what. While access is off, everybody may do
everything; rules, groups and tokens can be made, and checked, all the same.

Callers are user:NAME, by a token or a certificate, or anonymous. In a list, *
is everybody who is known, and group:NAME the members of a group. Rules stand
at paths and hold for all below. For each of read, lock, write and admin the
nearest rule upward that names it decides, alone. Where none does, only those
may who operate the cell.`,
		example: `  stout access rules set /billing --read '*' --lock user:billing,group:ops
  stout access check /billing/leader user:billing
  stout access enable --out root-token`,
		sub: []runner{a.rules(), a.groups(), a.cellAccess(), &checkAccess{app: a}, a.whoAmI(), &enableAccess{app: a}, &disableAccess{app: a}},
	}
}

// aboutAccess puts into words what is wrong with a call about access.
func aboutAccess(err error) error {
	refused, _ := errors.AsType[*lockapi.Error](err)
	switch {
	case refused == nil:
	case refused.Code == lockapi.CodeNotFound && refused.Detail != "", refused.Code == lockapi.CodeConflict, refused.Code == lockapi.CodeTooMany:
		return &failure{code: exitFailed, message: clean(refused.Detail)}
	}
	return err
}

func isNotFound(err error) bool {
	refused, ok := errors.AsType[*lockapi.Error](err)
	return ok && refused.Code == lockapi.CodeNotFound
}

// hows are the ways to be known.
var hows = map[string]string{
	lockapi.HowToken: "by a token", lockapi.HowCertificate: "by a client certificate", lockapi.HowJWT: "by a JWT",
	lockapi.HowBreakGlass: "by the break-glass token", lockapi.HowNone: "no credential was sent",
}

func (a *app) whoAmI() runner {
	return viewer(a, command{
		use: "whoami", short: "Show who the cell takes you for", like: "who id me", exits: reads,
		long: `Shows who the cell takes you for, and by what: a token, a certificate or a JWT.`,
	}, func(ctx context.Context, _ []string) (lockapi.WhoAmI, error) { return a.client.Access().WhoAmI(ctx) },
		func(me lockapi.WhoAmI) {
			how, known := hows[me.How]
			if !known {
				how = clean(me.How)
			}
			a.ui.printf("%s, %s\n", clean(me.Principal), how)
		})
}

type checkAccess struct {
	*app
	can string
}

func (c *checkAccess) command() command {
	return command{
		use: "check PATH [PRINCIPAL]", short: "Show what somebody may do at a path, and which rule says so",
		long: `Shows what PRINCIPAL (user:NAME or anonymous, without it you) may do at PATH,
and for each permission the rule that decides. It is by the rules as they are,
also while access is off.

With --can it asks about one permission, and the exit code tells.`,
		exits: readExits("shown (with --can: allowed)", "the cell said no (with --can: not allowed)"),
		example: `  stout access check /billing/leader user:billing
  stout access check /billing/leader --can lock`,
		like: "explain can-i may test", words: c.completeRule(),
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.can, "can", "", "ask about this `permission`: "+strings.Join(permissions, ", "))
		},
		values: map[string]completer{"can": fixed(permissions...)},
	}
}

// badPrincipal is the error of a malformed principal.
func badPrincipal(principal, what string) error {
	f := usagef("%q is no principal; one is %s", principal, what)
	if lockapi.IsUser(lockapi.PrefixUser + principal) {
		f.hint("did you mean user:%s ?", clean(principal))
	}
	return f
}

func (c *checkAccess) run(ctx context.Context, args []string) error {
	principal := strings.Join(args[1:], "")
	if err := validRulePath(args[0]); err != nil {
		return err
	}
	if len(args) == 2 && lockapi.ValidatePrincipal(principal) != nil {
		return badPrincipal(principal, "user:NAME or anonymous")
	}
	if c.can != "" && !slices.Contains(permissions, c.can) {
		return usagef("--can is %q; it is one of %s", c.can, strings.Join(permissions, ", "))
	}
	got, err := c.client.Access().Check(ctx, args[0], principal)
	verdicts := map[string]lockapi.AccessVerdict{
		lockapi.PermissionRead: got.Read, lockapi.PermissionLock: got.Lock,
		lockapi.PermissionWrite: got.Write, lockapi.PermissionAdmin: got.Admin,
	}
	err = answer(c.ui, got, err, func(lockapi.AccessCheck) {
		switch {
		case c.can == "":
			c.sayVerdicts(ctx, &got, permissions, verdicts)
		case !c.ui.quiet: // else the exit code says it
			c.sayVerdicts(ctx, &got, []string{c.can}, verdicts)
		}
	})
	if err == nil && c.can != "" && !verdicts[c.can].Allowed {
		return &failure{code: exitFailed}
	}
	return err
}

// sayVerdicts says what a principal may do, and why, a sentence each.
func (c *checkAccess) sayVerdicts(ctx context.Context, got *lockapi.AccessCheck, asked []string, verdicts map[string]lockapi.AccessVerdict) {
	book := &rulebook{access: c.client.Access(), rules: map[string]*lockapi.AccessRule{}}
	c.ui.printf("%s, at %s:\n", clean(got.Principal), clean(got.Path))
	for _, p := range asked {
		v := verdicts[p]
		may, style := "may not "+p, c.ui.out.fail
		if v.Allowed {
			may, style = "may "+p, c.ui.out.good
		}
		pad := strings.Repeat(" ", len("may not admin")-len(may))
		c.ui.printf("  %s%s  %s\n", style.Render(may), pad, book.reason(ctx, got.Principal, p, v))
	}
}

// rulebook looks up the rules and groups that verdicts name, once each. A rule that the
// caller may not read, or that is gone meanwhile, is left out of the reasons.
type rulebook struct {
	access client.Access
	rules  map[string]*lockapi.AccessRule
	groups map[string][]string // members by name; nil before the first look
}

// reason says why a principal has a permission, or has it not.
func (b *rulebook) reason(ctx context.Context, principal, permission string, v lockapi.AccessVerdict) string {
	switch {
	case v.Rule == nil && v.Allowed:
		return "operates the cell: no rule is asked"
	case v.Rule == nil:
		return fmt.Sprintf("no rule here is about %s: only who operates the cell may", permission)
	}
	at := "the rule at " + clean(*v.Rule)
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
			return at + " is for nobody"
		case slices.Equal(list, []string{lockapi.Everybody}):
			return at + " is for those who are known"
		}
		return fmt.Sprintf("%s is for %s", at, entries(list, 6))
	}
	entry, through := b.entryFor(ctx, list, principal)
	switch {
	case entry == "":
		return "by " + at
	case entry == principal:
		return fmt.Sprintf("%s names %s", at, clean(principal))
	case entry == lockapi.Everybody:
		return at + " is for everybody who is known"
	}
	reason := fmt.Sprintf("%s names %s, of which %s is a member", at, clean(entry), clean(principal))
	if len(through) > 0 {
		reason += " by way of " + entries(through, len(through))
	}
	return reason
}

// entryFor is the entry of a list by which a principal is in it, or "", and for a group
// the groups that lead from it to the principal.
func (b *rulebook) entryFor(ctx context.Context, list []string, principal string) (entry string, through []string) {
	switch {
	case slices.Contains(list, principal):
		return principal, nil
	case slices.Contains(list, lockapi.Everybody) && principal != lockapi.PrincipalAnonymous:
		return lockapi.Everybody, nil
	}
	for _, e := range list {
		if through, in := b.leads(ctx, e, principal, nil); in {
			return e, through
		}
	}
	return "", nil
}

// leads reports whether a group has a principal among its members, and by which groups
// in between.
func (b *rulebook) leads(ctx context.Context, entry, principal string, seen []string) (through []string, in bool) {
	name, isGroup := strings.CutPrefix(entry, lockapi.PrefixGroup)
	if !isGroup || slices.Contains(seen, name) {
		return nil, false
	}
	if b.groups == nil {
		b.groups = make(map[string][]string)
		groups, _ := b.access.Groups(ctx)
		for _, g := range groups {
			b.groups[g.Name] = g.Members
		}
	}
	members := b.groups[name]
	if slices.Contains(members, principal) {
		return nil, true
	}
	for _, m := range members {
		if through, in := b.leads(ctx, m, principal, append(seen, name)); in {
			return append([]string{m}, through...), true
		}
	}
	return nil, false
}

type enableAccess struct {
	*app
	out, secretFile string
	yes             bool
}

func (c *enableAccess) command() command {
	return command{
		use: "enable", short: "Have the cell judge its callers, from now on", like: "on start", endless: true,
		long: `Has the cell judge each call from now on, by the rules, groups and tokens that
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

It says first what will be, and asks; --yes is for scripts.`,
		exits: changeExits("enabled", "it was on already or nobody said yes"),
		example: `  stout access enable --out root-token
  STOUT_AUTH_TOKEN_FILE=root-token stout access whoami`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.out, "out", "", outUsage)
			f.StringVar(&c.secretFile, "secret-file", "", "the `file` "+lockapi.EnableSecretFile+" of the master's data directory, for a call from another host")
			addYes(f, &c.yes)
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
	if !c.yes {
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
		return c.client.Access().Enable(ctx, req)
	})
	if errors.Is(err, client.ErrConflict) {
		return &failure{code: exitFailed, message: "access is on already"}
	}
	if refused, ok := errors.AsType[*lockapi.Error](err); ok && refused.Code == lockapi.CodePermissionDenied && refused.Principal == "" {
		return (&failure{code: exitFailed, message: clean(refused.Detail)}).hint("give a copy of it: --secret-file FILE; or call that replica from its own host, by 127.0.0.1")
	}
	if err != nil {
		return err
	}
	c.ui.note("access is on: each call is judged from now on")
	return c.showSecret(s, token)
}

// confirm says by what calls will be judged, and asks.
func (c *enableAccess) confirm(ctx context.Context) error {
	const why = "to enable access ends what programs without a credential do"
	if err := c.someoneToAsk(why); err != nil {
		return err
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	access := c.client.Access()
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
	return c.warn(false, why, fmt.Sprintf("From then on each call is judged, by %s and %s. The cell is operated by %s and %s. "+
		"A program without a credential can do nothing that no rule lets anonymous do; what it holds is lost when its session's lease ends.",
		plural(len(rules), "rule"), plural(len(tokens), "token"), lockapi.PrincipalRoot, entries(lists.Operate, 5)), "Enable access?")
}

type disableAccess struct {
	*app
	yes bool
}

func (c *disableAccess) command() command {
	return command{
		use: "disable", short: "Let every caller do everything again", like: "off stop", endless: true,
		long: `Lets everybody who reaches the cell do everything again. Rules, groups and
tokens stay, for the next time. It asks first; --yes is for scripts.`,
		exits: changeExits("disabled", "the cell said no, or nobody said yes"),
		flags: func(f *pflag.FlagSet) { addYes(f, &c.yes) },
	}
}

func (c *disableAccess) run(ctx context.Context, _ []string) error {
	err := c.warn(c.yes, "to disable access lets everybody do everything",
		"From then on everybody who reaches the cell may do everything: read and write all files, take and release all locks, end others' sessions. "+
			"Rules, groups and tokens stay, for the next time.", "Disable access?")
	if err != nil {
		return err
	}
	return c.remove(ctx, c.client.Access().Disable, "access is off: everybody may do everything\n")
}
