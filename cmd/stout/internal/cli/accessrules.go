package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Words that stand for a whole list.
const (
	nobody    = "nobody"
	inherited = "inherit"
)

func (a *app) rulesCommand() *cobra.Command {
	show := func(cmd *cobra.Command, args []string) error {
		prefix := strings.Join(args, "")
		if err := validPrefix(prefix); err != nil {
			return err
		}
		return a.rules(cmd.Context(), prefix)
	}
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "List, show, set and remove the rules at paths",
		Long: `Lists the rules, those whose paths begin with PREFIX, at which you have admin.
"inherited" says that what is above decides.

` + exitHelp,
		SuggestFor:        []string{"rule", "acl", "acls"},
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              show,
	}
	list := &cobra.Command{
		Use:               "list [PREFIX]",
		Short:             "List the rules",
		Long:              cmd.Long,
		SuggestFor:        []string{"ls"},
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeRule,
		RunE:              show,
	}
	one := &cobra.Command{
		Use:   "show PATH",
		Short: "Show the rule at a path",
		Long: `Shows the rule that stands at PATH, / for the root, with all entries. stout
access check tells what somebody may do there by all rules together.

` + exitHelp,
		SuggestFor:        []string{"get", "cat"},
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := validRulePath(args[0]); err != nil {
				return err
			}
			return a.showRule(cmd.Context(), args[0])
		},
	}
	cmd.AddCommand(list, one, a.setRuleCommand(), a.removeRuleCommand())
	return cmd
}

func (a *app) rules(ctx context.Context, prefix string) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	rules, err := collect(a.client.Access().Rules(ctx, prefix))
	switch {
	case err != nil:
		return aboutAccess(err)
	case a.ui.json:
		return a.ui.object(lockapi.AccessRuleList{Rules: rules})
	case len(rules) == 0 && prefix == "":
		a.ui.note("there is no rule at which you have admin")
		return nil
	case len(rules) == 0:
		a.ui.note("there is no rule at which you have admin and whose path begins with %s", clean(prefix))
		return nil
	}
	rows := make([][]string, 0, len(rules))
	for _, r := range rules {
		rows = append(rows, []string{clean(r.Path), a.entriesCell(r.Read), a.entriesCell(r.Lock), a.entriesCell(r.Write), a.entriesCell(r.Admin)})
	}
	a.ui.table([]column{left("PATH"), left("READ"), left("LOCK"), left("WRITE"), left("ADMIN")}, rows)
	return nil
}

// entriesCell is a list in a table.
func (a *app) entriesCell(list []string) string {
	text := entries(list, 3)
	if list == nil {
		return a.ui.out.dim.Render(text)
	}
	return text
}

func (a *app) showRule(ctx context.Context, path string) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	rule, err := a.client.Access().Rule(ctx, path)
	if err != nil {
		return aboutAccess(err)
	}
	return a.tellRule(&rule)
}

func (a *app) tellRule(rule *lockapi.AccessRule) error {
	if a.ui.json {
		return a.ui.object(rule)
	}
	pairs := [][2]string{{"path", clean(rule.Path)}}
	for _, p := range permissions {
		list := *listOf(&rule.AccessLists, p)
		pairs = append(pairs, [2]string{p, entries(list, len(list))})
	}
	a.ui.pairs(pairs...)
	return nil
}

func (a *app) setRuleCommand() *cobra.Command {
	var yes bool
	given := make(map[string]*[]string)
	cmd := &cobra.Command{
		Use:   "set PATH [--read WHO] [--lock WHO] [--write WHO] ...",
		Short: "Say who may read, lock, write and administer at a path",
		Long: `Puts a rule at PATH, / for the root: it holds there and for all below. WHO is
user:NAME, group:NAME, * for everybody who is known, or anonymous; several are
separated by commas, or the flag is given again. A flag gives the whole list:
"nobody" is an empty one, and "inherit" leaves the decision to what is above. A
permission whose flag is not given stays as it is.

It asks first where you would lose admin there yourself; --yes is for scripts.

` + changeHelp,
		Example: `  stout access rules set /billing --read '*' --lock user:billing,group:ops
  stout access rules set /billing --write inherit`,
		SuggestFor:            []string{"put", "add", "create", "edit"},
		DisableFlagsInUseLine: true,
		Args:                  cobra.ExactArgs(1),
		ValidArgsFunction:     a.completeRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := validRulePath(args[0]); err != nil {
				return err
			}
			lists := make(map[string][]string)
			for _, p := range permissions {
				if cmd.Flags().Changed(p) {
					list, err := whoOf(p, *given[p])
					if err != nil {
						return err
					}
					lists[p] = list
				}
			}
			if len(lists) == 0 {
				return usagef("who may do what there? give --read, --lock, --write or --admin")
			}
			return a.setRule(cmd.Context(), args[0], lists, yes)
		},
	}
	for _, p := range permissions {
		given[p] = new([]string)
		addWho(cmd, given[p], p, "`who` may "+map[string]string{
			"read": "read files, locks and events", "lock": "take and wait for locks",
			"write": "write and delete files", "admin": "change rules, and release others' locks",
		}[p])
	}
	addYes(cmd.Flags(), &yes)
	return cmd
}

func addWho(cmd *cobra.Command, to *[]string, name, usage string) {
	cmd.Flags().StringSliceVar(to, name, nil, usage)
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions([]string{"'*'", lockapi.PrincipalAnonymous, nobody}, cobra.ShellCompDirectiveNoFileComp))
}

func addYes(flags *pflag.FlagSet, yes *bool) {
	flags.BoolVarP(yes, "yes", "y", false, "do not ask")
}

// whoOf reads the list that a flag gives: nil for one that is inherited.
func whoOf(flag string, given []string) ([]string, error) {
	if len(given) == 0 {
		given = []string{""}
	}
	list := []string{}
	for _, word := range given {
		switch word = strings.TrimSpace(word); {
		case (word == nobody || word == inherited) && len(given) > 1:
			return nil, usagef("--%s: %q stands alone", flag, word)
		case word == inherited:
			return nil, nil
		case word == nobody:
		case word == "":
			return nil, usagef("--%s is empty, or has an empty entry; %q is an empty list", flag, nobody)
		default:
			list = append(list, word)
		}
	}
	probe := lockapi.CellAccess{Observe: list}
	if err := probe.Validate(); err != nil {
		for _, entry := range list {
			if entry != lockapi.Everybody && entry != lockapi.PrincipalAnonymous && !lockapi.IsMember(entry) {
				return nil, badPrincipal(entry, "user:NAME, group:NAME, * or anonymous")
			}
		}
		return nil, usagef("--%s: %d entries; at most %d are allowed: make groups of them", flag, len(list), lockapi.MaxAccessEntries)
	}
	return list, nil
}

func (a *app) setRule(ctx context.Context, at string, lists map[string][]string, yes bool) error {
	rule, err := a.presentRule(ctx, at)
	if err != nil {
		return aboutAccess(err)
	}
	for p, list := range lists {
		*listOf(&rule.AccessLists, p) = list
	}
	if admins, changed := lists[lockapi.PermissionAdmin]; changed && !yes {
		if err := a.keepsAdmin(ctx, at, admins); err != nil {
			return err
		}
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	rule, err = a.client.Access().PutRule(ctx, at, rule.AccessLists)
	if err != nil {
		return aboutAccess(err)
	}
	return a.tellRule(&rule)
}

// presentRule is the rule at a path, an empty one where there is none.
func (a *app) presentRule(ctx context.Context, at string) (lockapi.AccessRule, error) {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	rule, err := a.client.Access().Rule(ctx, at)
	if refused, ok := errors.AsType[*lockapi.Error](err); ok && refused.Code == lockapi.CodeNotFound {
		return lockapi.AccessRule{Path: at}, nil
	}
	return rule, err
}

// keepsAdmin asks, where whoever calls has admin at a path by a rule, and would
// not have it after a change: nil admins are inherited.
func (a *app) keepsAdmin(ctx context.Context, at string, admins []string) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	access := a.client.Access()
	now, err := access.Check(ctx, at, "")
	if err != nil || !now.Admin.Allowed || now.Admin.Rule == nil {
		return nil // nothing to lose, or it is the cell's to say what is wrong
	}
	keeps := false
	if admins == nil && at != "/" {
		above, err := access.Check(ctx, path.Dir(at), "")
		keeps = err == nil && above.Admin.Allowed
	}
	if admins != nil {
		book := &rulebook{access: access}
		entry, _ := book.entryFor(ctx, admins, now.Principal)
		keeps = entry != ""
	}
	if keeps {
		return nil
	}
	return a.warn(false, "after that you would not have admin at "+clean(at),
		fmt.Sprintf("You are %s, and would not have admin at %s any more: you could not take it back. Who operates the cell could.", clean(now.Principal), clean(at)),
		"Do it all the same?")
}

func (a *app) removeRuleCommand() *cobra.Command {
	var yes, below bool
	cmd := &cobra.Command{
		Use:   "remove PATH",
		Short: "Remove the rule at a path: what is above decides",
		Long: `Removes the rule at PATH: what is above decides there from then on. It asks
first where you would lose admin there yourself; --yes is for scripts.

With --below it removes all rules below PATH in one step, and leaves the one at
PATH. That takes admin at PATH and at each of them.

Exit codes: 0 removed, 1 there was none, or the cell said no, 2 wrong usage, 3
the cell has no master, 4 no replica can be reached, 6 it is not known whether
it is done.`,
		SuggestFor:        []string{"rm", "delete", "del", "unset"},
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := validRulePath(args[0]); err != nil {
				return err
			}
			if below {
				return a.removeRulesBelow(cmd.Context(), args[0])
			}
			return a.removeRule(cmd.Context(), args[0], yes)
		},
	}
	addYes(cmd.Flags(), &yes)
	cmd.Flags().BoolVar(&below, "below", false, "remove all rules below PATH instead")
	return cmd
}

// removeRule reads the rule first: to remove one that does not exist is no error
// to the cell, but it is to someone who mistyped a path.
func (a *app) removeRule(ctx context.Context, at string, yes bool) error {
	read, cancel := a.bounded(ctx)
	defer cancel()
	rule, err := a.client.Access().Rule(read, at)
	if err != nil {
		return aboutAccess(err)
	}
	if rule.Admin != nil && !yes {
		if err := a.keepsAdmin(ctx, at, nil); err != nil {
			return err
		}
	}
	if err := a.removed(ctx, func(ctx context.Context, c client.Access) error { return c.DeleteRule(ctx, at) }); err != nil || a.ui.json {
		return err
	}
	a.ui.printf("removed the rule at %s\n", clean(at))
	return nil
}

func (a *app) removeRulesBelow(ctx context.Context, at string) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	some, err := a.client.Access().DeleteRulesBelow(ctx, strings.TrimSuffix(at, "/")+"/")
	if err != nil {
		return aboutAccess(err)
	}
	if a.ui.json {
		err = a.ui.object(lockapi.RulesDeleted{Deleted: some})
	} else if some {
		a.ui.printf("removed the rules below %s\n", clean(at))
	}
	if err == nil && !some {
		return &failure{code: exitFailed, message: "no rule stands below " + clean(at), expected: true}
	}
	return err
}

// removed does what is answered by nothing; as JSON that is an empty object.
func (a *app) removed(ctx context.Context, do func(context.Context, client.Access) error) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	if err := do(ctx, a.client.Access()); err != nil {
		return aboutAccess(err)
	}
	if a.ui.json {
		return a.ui.object(struct{}{})
	}
	return nil
}
