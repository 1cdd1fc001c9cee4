package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) accessCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "access",
		Short: "Say and show who may do what",
		Long: `Says and shows who may do what. While access is off, everybody may do
everything; rules, groups and tokens can be made, and checked, all the same.

Callers are user:NAME, by a token or a certificate, or anonymous. In a list, *
is everybody who is known, and group:NAME the members of a group. Rules stand
at paths and hold for all below. For each of read, lock, write and admin the
nearest rule upward that names it decides, alone. Where none does, only those
may who operate the cell.`,
		Example: `  stout access rules set /billing --read '*' --lock user:billing,group:ops
  stout access check /billing/leader user:billing
  stout access enable --out root-token`,
		SuggestFor: []string{"acl", "rbac", "auth", "permissions", "rules", "policy", "grant"},
		Args:       cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("say what to do: stout access rules, groups, cell, check, whoami, enable or disable")
		},
	}
	cmd.AddCommand(a.rulesCommand(), a.groupsCommand(), a.cellAccessCommand(), a.checkAccessCommand(), a.whoAmICommand(), a.enableCommand(), a.disableCommand())
	return cmd
}

// aboutAccess puts into words what is wrong with a call about access.
func aboutAccess(err error) error {
	refused, ok := errors.AsType[*lockapi.Error](err)
	switch {
	case !ok:
		return err
	case refused.Code == lockapi.CodeNotFound && refused.Detail != "":
		return &failure{code: exitFailed, message: clean(refused.Detail)}
	case refused.Code == lockapi.CodeConflict, refused.Code == lockapi.CodeTooMany:
		return &failure{code: exitFailed, message: clean(refused.Detail)}
	case refused.Code == lockapi.CodeOutcomeUnknown:
		return (&failure{code: exitUnknown, message: clean(refused.Detail)}).hint("it may or may not be done: look how things are before it is done again")
	}
	return err
}

func (a *app) whoAmICommand() *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show who the cell takes you for",
		Long: `Shows who the cell takes you for, and by what: a token, a certificate or a JWT.

` + exitHelp,
		Args:              cobra.NoArgs,
		SuggestFor:        []string{"who", "id", "me"},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.whoAmI(cmd.Context()) },
	}
}

// hows are the ways to be known.
var hows = map[string]string{
	lockapi.HowToken: "by a token", lockapi.HowCertificate: "by a client certificate", lockapi.HowJWT: "by a JWT",
	lockapi.HowBreakGlass: "by the break-glass token", lockapi.HowNone: "no credential was sent",
}

func (a *app) whoAmI(ctx context.Context) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	me, err := a.client.Access().WhoAmI(ctx)
	if err != nil {
		return err
	}
	if a.ui.json {
		return a.ui.object(me)
	}
	how, known := hows[me.How]
	if !known {
		how = clean(me.How)
	}
	a.ui.printf("%s, %s\n", clean(me.Principal), how)
	return nil
}

func (a *app) checkAccessCommand() *cobra.Command {
	var can string
	cmd := &cobra.Command{
		Use:   "check PATH [PRINCIPAL]",
		Short: "Show what somebody may do at a path, and which rule says so",
		Long: `Shows what PRINCIPAL (user:NAME or anonymous, without it you) may do at PATH,
and for each permission the rule that decides. It is by the rules as they are,
also while access is off.

With --can it asks about one permission, and the exit code tells.

Exit codes: 0 shown (with --can: allowed), 1 the cell said no (with --can: not
allowed), 2 wrong usage, 3 the cell has no master, 4 no replica can be reached.`,
		Example: `  stout access check /billing/leader user:billing
  stout access check /billing/leader --can lock`,
		Args:              cobra.RangeArgs(1, 2),
		SuggestFor:        []string{"explain", "can-i", "may", "test"},
		ValidArgsFunction: a.completeRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := validRulePath(args[0]); err != nil {
				return err
			}
			principal := ""
			if len(args) == 2 {
				if principal = args[1]; lockapi.ValidatePrincipal(principal) != nil {
					return badPrincipal(principal, "user:NAME or anonymous")
				}
			}
			if can != "" && !slices.Contains(permissions, can) {
				return usagef("--can is %q; it is one of %s", can, strings.Join(permissions, ", "))
			}
			return a.checkAccess(cmd.Context(), args[0], principal, can)
		},
	}
	cmd.Flags().StringVar(&can, "can", "", "ask about this `permission`: "+strings.Join(permissions, ", "))
	_ = cmd.RegisterFlagCompletionFunc("can", cobra.FixedCompletions(permissions, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

var permissions = []string{lockapi.PermissionRead, lockapi.PermissionLock, lockapi.PermissionWrite, lockapi.PermissionAdmin}

// badPrincipal is a principal that none is.
func badPrincipal(principal, what string) error {
	f := usagef("%q is no principal; one is %s", principal, what)
	if lockapi.IsUser(lockapi.PrefixUser + principal) {
		f.hint("did you mean user:%s ?", clean(principal))
	}
	return f
}

// validRulePath is validPath for where a rule may stand: the root as well.
func validRulePath(path string) error {
	if path == "/" {
		return nil
	}
	return validPath(path)
}

func (a *app) checkAccess(ctx context.Context, path, principal, can string) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	answer, err := a.client.Access().Check(ctx, path, principal)
	if err != nil {
		return aboutAccess(err)
	}
	verdicts := map[string]lockapi.AccessVerdict{
		lockapi.PermissionRead: answer.Read, lockapi.PermissionLock: answer.Lock,
		lockapi.PermissionWrite: answer.Write, lockapi.PermissionAdmin: answer.Admin,
	}
	denied := can != "" && !verdicts[can].Allowed
	switch {
	case a.ui.json:
		if err := a.ui.object(answer); err != nil {
			return err
		}
	case can != "" && a.ui.quiet: // the exit code says it
	default:
		ps := permissions
		if can != "" {
			ps = []string{can}
		}
		a.sayVerdicts(ctx, &answer, ps, verdicts)
	}
	if denied {
		return &failure{code: exitFailed}
	}
	return nil
}

// sayVerdicts says what a principal may do, and why, a sentence each.
func (a *app) sayVerdicts(ctx context.Context, answer *lockapi.AccessCheck, ps []string, verdicts map[string]lockapi.AccessVerdict) {
	book := &rulebook{access: a.client.Access(), rules: map[string]*lockapi.AccessRule{}}
	a.ui.printf("%s, at %s:\n", clean(answer.Principal), clean(answer.Path))
	for _, p := range ps {
		v := verdicts[p]
		may := a.ui.out.fail.Render("may not " + p)
		if v.Allowed {
			may = a.ui.out.good.Render("may " + p)
		}
		pad := strings.Repeat(" ", max(0, len("may not admin")-len("may "+p)))
		if !v.Allowed {
			pad = strings.Repeat(" ", len("admin")-len(p))
		}
		a.ui.printf("  %s%s  %s\n", may, pad, book.reason(ctx, answer.Principal, p, v))
	}
}

// rulebook looks up what verdicts are about, once each. What one may not read, or
// is gone meanwhile, is left out of the reasons.
type rulebook struct {
	access client.Access
	rules  map[string]*lockapi.AccessRule
	groups map[string][]string // members by name; nil before the first look
}

// reason is why somebody may or may not.
func (b *rulebook) reason(ctx context.Context, principal, permission string, v lockapi.AccessVerdict) string {
	switch {
	case v.Rule == nil && v.Allowed:
		return "operates the cell: no rule is asked"
	case v.Rule == nil:
		return fmt.Sprintf("no rule here is about %s: only who operates the cell may", permission)
	}
	at := "the rule at " + clean(*v.Rule)
	rule := b.rule(ctx, *v.Rule)
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
	for i, group := range through {
		reason += []string{" by way of ", ", "}[min(i, 1)] + clean(group)
	}
	return reason
}

func (b *rulebook) rule(ctx context.Context, path string) *lockapi.AccessRule {
	rule, known := b.rules[path]
	if !known {
		if r, err := b.access.Rule(ctx, path); err == nil {
			rule = &r
		}
		b.rules[path] = rule
	}
	return rule
}

// entryFor is the entry of a list by which a principal is in it, "" where none is
// seen to be, and for a group the groups that lead from it to the principal.
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

// leads reports whether a group has a principal among its members, and by which
// groups in between.
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

// listOf is the list of a permission.
func listOf(lists *lockapi.AccessLists, permission string) *[]string {
	switch permission {
	case lockapi.PermissionRead:
		return &lists.Read
	case lockapi.PermissionLock:
		return &lists.Lock
	case lockapi.PermissionWrite:
		return &lists.Write
	}
	return &lists.Admin
}

// entries are the first of a list, for a line.
func entries(list []string, most int) string {
	switch {
	case list == nil:
		return "inherited"
	case len(list) == 0:
		return "nobody"
	}
	var shown []string
	for _, e := range list[:min(len(list), most)] {
		shown = append(shown, clean(e))
	}
	text := strings.Join(shown, ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
