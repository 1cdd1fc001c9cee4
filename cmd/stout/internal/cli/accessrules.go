package cli

import (
	"context"
	"path"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/lockapi"
)

const rulesHelp = `Lists the rules at paths that begin with PREFIX, if you have admin there.
"inherited" means that the rule above decides.`

func (a *app) rules() runner {
	return group{
		use: "rules", short: "List, show, set and remove the rules at paths", like: "rule acl acls",
		long: rulesHelp, exits: reads, first: true,
		sub: []runner{a.listRules(), a.showRule(), &setRule{app: a, who: whoFlags{}}, &removeRule{app: a}},
	}
}

func (a *app) listRules() runner {
	prefix := ""
	return viewer(a, command{use: "list [PREFIX]", short: "List the rules", long: rulesHelp, exits: reads, like: "ls", words: a.completeRule()},
		func(ctx context.Context, args []string) (l lockapi.AccessRuleList, err error) {
			prefix = strings.Join(args, "")
			if err := validPrefix(prefix); err != nil {
				return l, err
			}
			l.Rules, err = collect(a.client.Access().Rules(ctx, prefix))
			return l, err
		}, func(l lockapi.AccessRuleList) {
			switch {
			case len(l.Rules) > 0:
				a.ui.table([]column{left("PATH"), left("READ"), left("LOCK"), left("WRITE"), left("ADMIN")}, rows(l.Rules, func(r lockapi.AccessRule) []string {
					return []string{clean(r.Path), a.entriesCell(r.Read), a.entriesCell(r.Lock), a.entriesCell(r.Write), a.entriesCell(r.Admin)}
				}))
			case prefix == "":
				a.ui.note("you have admin at no rule")
			default:
				a.ui.note("you have admin at no rule with prefix %s", clean(prefix))
			}
		})
}

// entriesCell formats a list for a table.
func (a *app) entriesCell(list []string) string {
	if list == nil {
		return a.ui.out.dim.Render(entries(nil, 0))
	}
	return entries(list, 3)
}

func (a *app) showRule() runner {
	return viewer(a, command{
		use: "show PATH", short: "Show the rule at a path", like: "get cat", words: a.completeRule(), exits: reads,
		long: `Shows the rule at PATH with all entries; / is the root. stout access check shows
what a caller may do there under all rules.`,
	}, func(ctx context.Context, args []string) (rule lockapi.AccessRule, err error) {
		if err := validRulePath(args[0]); err != nil {
			return rule, err
		}
		return a.client.Access().Rule(ctx, args[0])
	}, a.printRule)
}

func (a *app) printRule(rule lockapi.AccessRule) {
	pairs := [][2]string{{"path", clean(rule.Path)}}
	for _, p := range permissions {
		list := *listOf(&rule.AccessLists, p)
		pairs = append(pairs, [2]string{p, entries(list, len(list))})
	}
	a.ui.pairs(pairs...)
}

type setRule struct {
	*app
	who whoFlags
	yes bool
}

func (c *setRule) command() command {
	return command{
		use: "set PATH [--read WHO] [--lock WHO] [--write WHO] ...", short: "Set the permissions at a path",
		long: `Sets the rule at PATH, which also applies below it; / is the root. WHO is
user:NAME, group:NAME, * for every authenticated user, or anonymous. Separate
several by commas, or repeat the flag. Each flag gives the whole list: "nobody"
is an empty list, and "inherit" lets the rule above decide. Permissions without
a flag stay as they are.

The command asks first if you would lose admin there; --yes skips the question.`,
		example: `  stout access rules set /billing --read '*' --lock user:billing,group:ops
  stout access rules set /billing --write inherit`,
		exits: changes, like: "put add create edit", words: c.completeRule(), values: completeWho(permissions...), endless: true,
		flags: func(f *pflag.FlagSet) {
			c.who.bind(f, "read", "`who` may read files, locks and events")
			c.who.bind(f, "lock", "`who` may take and wait for locks")
			c.who.bind(f, "write", "`who` may write and delete files")
			c.who.bind(f, "admin", "`who` may change rules and release others' locks")
			addYes(f, &c.yes)
		},
	}
}

func (c *setRule) run(ctx context.Context, args []string) error {
	at := args[0]
	if err := validRulePath(at); err != nil {
		return err
	}
	lists, err := c.who.lists(c.app)
	if err == nil && len(lists) == 0 {
		err = usagef("nothing to set: give --read, --lock, --write or --admin")
	}
	if err != nil {
		return err
	}
	access := c.client.Access()
	return edit(ctx, c.app, func(ctx context.Context) (lockapi.AccessRule, error) {
		rule, err := access.Rule(ctx, at)
		if isNotFound(err) {
			return lockapi.AccessRule{Path: at}, nil
		}
		return rule, err
	}, func(rule *lockapi.AccessRule) error {
		for p, list := range lists {
			*listOf(&rule.AccessLists, p) = list
		}
		if admins, changed := lists[lockapi.PermissionAdmin]; changed && !c.yes {
			return c.keepsAdmin(ctx, at, admins)
		}
		return nil
	}, func(ctx context.Context, rule lockapi.AccessRule) (lockapi.AccessRule, error) {
		return access.PutRule(ctx, at, rule.AccessLists)
	}, c.printRule)
}

// keepsAdmin asks if the caller has admin at a path by a rule and would lose
// it. Nil admins are inherited.
func (a *app) keepsAdmin(ctx context.Context, at string, admins []string) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	access := a.client.Access()
	now, err := access.Check(ctx, at, "")
	if err != nil || !now.Admin.Allowed || now.Admin.Rule == nil {
		return nil // nothing to lose, or the change itself reports the error
	}
	keeps := false
	if admins == nil && at != "/" {
		above, err := access.Check(ctx, path.Dir(at), "")
		keeps = err == nil && above.Admin.Allowed
	}
	if admins != nil {
		entry, _ := (&rulebook{access: access}).entryFor(ctx, admins, now.Principal)
		keeps = entry != ""
	}
	if keeps {
		return nil
	}
	return a.warnOfLoss(now.Principal, "have admin at "+clean(at), "an operator of the cell")
}

type removeRule struct {
	*app
	yes, below bool
}

func (c *removeRule) command() command {
	return command{
		use: "remove PATH", short: "Remove the rule at a path",
		long: `Removes the rule at PATH: the rule above then decides. The command asks first if
you would lose admin there; --yes skips the question.

With --below it removes all rules below PATH in one step and keeps the one at
PATH. That needs admin at PATH and at each of them.`,
		exits: changeExits("removed", "there was no rule, or the cell refused"), like: "rm delete del unset", words: c.completeRule(), endless: true,
		flags: func(f *pflag.FlagSet) {
			addYes(f, &c.yes)
			f.BoolVar(&c.below, "below", false, "remove all rules below PATH instead")
		},
	}
}

// run reads the rule first. The cell accepts the removal of a missing rule, but
// for a person that is a typing error.
func (c *removeRule) run(ctx context.Context, args []string) error {
	at := args[0]
	if err := validRulePath(at); err != nil {
		return err
	}
	reading, cancel := c.bounded(ctx)
	defer cancel()
	access := c.client.Access()
	if c.below {
		some, err := access.DeleteRulesBelow(reading, strings.TrimSuffix(at, "/")+"/")
		err = answer(c.ui, lockapi.RulesDeleted{Deleted: some}, err, func(lockapi.RulesDeleted) {
			if some {
				c.ui.printf("removed the rules below %s\n", clean(at))
			}
		})
		if err == nil && !some {
			return &failure{code: exitFailed, message: "there is no rule below " + clean(at), expected: true}
		}
		return err
	}
	rule, err := access.Rule(reading, at)
	if err == nil && rule.Admin != nil && !c.yes {
		err = c.keepsAdmin(ctx, at, nil)
	}
	if err != nil {
		return err
	}
	return c.remove(ctx, func(ctx context.Context) error { return access.DeleteRule(ctx, at) }, "removed the rule at %s\n", clean(at))
}
