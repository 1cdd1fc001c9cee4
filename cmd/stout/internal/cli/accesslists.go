package cli

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/lockapi"
)

// Words that stand for a whole list.
const (
	nobody    = "nobody"
	inherited = "inherit"
)

// edit reads something of the cell, changes it, writes it, and shows it as it is then.
// change may ask a person, so --timeout bounds only the calls.
func edit[T any](ctx context.Context, a *app, read func(context.Context) (T, error), change func(*T) error, write func(context.Context, T) (T, error), show func(T)) error {
	reading, cancel := a.bounded(ctx)
	defer cancel()
	v, err := read(reading)
	if err != nil {
		return err
	}
	if err := change(&v); err != nil {
		return err
	}
	writing, cancel := a.bounded(ctx)
	defer cancel()
	v, err = write(writing, v)
	return answer(a.ui, v, err, show)
}

// remove does what has no answer; in JSON that is an empty object.
func (a *app) remove(ctx context.Context, do func(context.Context) error, format string, args ...any) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	return answer(a.ui, struct{}{}, do(ctx), func(struct{}) { a.ui.printf(format, args...) })
}

// whoFlags are flags that each give a whole list.
type whoFlags map[string]*[]string

func (w whoFlags) bind(flags *pflag.FlagSet, name, usage string) {
	w[name] = new([]string)
	flags.StringSliceVar(w[name], name, nil, usage)
}

// lists are those that were given; a nil one is inherited.
func (w whoFlags) lists(a *app) (map[string][]string, error) {
	out := map[string][]string{}
	for name, words := range w {
		if !a.given(name) {
			continue
		}
		list, err := whoOf(name, *words)
		if err != nil {
			return nil, err
		}
		out[name] = list
	}
	return out, nil
}

// completeWho completes those flags.
func completeWho(names ...string) map[string]completer {
	out := map[string]completer{}
	for _, name := range names {
		out[name] = fixed("'*'", lockapi.PrincipalAnonymous, nobody)
	}
	return out
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
		case word != lockapi.Everybody && word != lockapi.PrincipalAnonymous && !lockapi.IsMember(word):
			return nil, badPrincipal(word, "user:NAME, group:NAME, * or anonymous")
		default:
			list = append(list, word)
		}
	}
	if len(list) > lockapi.MaxAccessEntries {
		return nil, usagef("--%s: %d entries; at most %d are allowed: make groups of them", flag, len(list), lockapi.MaxAccessEntries)
	}
	return list, nil
}

func addYes(flags *pflag.FlagSet, yes *bool) { flags.BoolVarP(yes, "yes", "y", false, "do not ask") }

// warnOfLoss asks before a caller takes a right from itself; others say who could give
// it back.
func (a *app) warnOfLoss(principal, right, others string) error {
	return a.warn(false, "after that you would not "+right,
		fmt.Sprintf("You are %s, and would not %s any more: you could not take it back. %s could.", clean(principal), right, others),
		"Do it all the same?")
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

// Rules.

var permissions = []string{lockapi.PermissionRead, lockapi.PermissionLock, lockapi.PermissionWrite, lockapi.PermissionAdmin}

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

// validRulePath is validPath for where a rule may stand: the root as well.
func validRulePath(path string) error {
	if path == "/" {
		return nil
	}
	return validPath(path)
}

const rulesHelp = `Lists the rules, those whose paths begin with PREFIX, at which you have admin.
"inherited" says that what is above decides.`

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
				a.ui.note("there is no rule at which you have admin")
			default:
				a.ui.note("there is no rule at which you have admin and whose path begins with %s", clean(prefix))
			}
		})
}

// entriesCell is a list in a table.
func (a *app) entriesCell(list []string) string {
	if list == nil {
		return a.ui.out.dim.Render(entries(nil, 0))
	}
	return entries(list, 3)
}

func (a *app) showRule() runner {
	return viewer(a, command{
		use: "show PATH", short: "Show the rule at a path", like: "get cat", words: a.completeRule(), exits: reads,
		long: `Shows the rule that stands at PATH, / for the root, with all entries. stout
access check tells what somebody may do there by all rules together.`,
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
		use: "set PATH [--read WHO] [--lock WHO] [--write WHO] ...", short: "Say who may read, lock, write and administer at a path",
		long: `Puts a rule at PATH, / for the root: it holds there and for all below. WHO is
user:NAME, group:NAME, * for everybody who is known, or anonymous; several are
separated by commas, or the flag is given again. A flag gives the whole list:
"nobody" is an empty one, and "inherit" leaves the decision to what is above. A
permission whose flag is not given stays as it is.

It asks first where you would lose admin there yourself; --yes is for scripts.`,
		example: `  stout access rules set /billing --read '*' --lock user:billing,group:ops
  stout access rules set /billing --write inherit`,
		exits: changes, like: "put add create edit", words: c.completeRule(), values: completeWho(permissions...), endless: true,
		flags: func(f *pflag.FlagSet) {
			c.who.bind(f, "read", "`who` may read files, locks and events")
			c.who.bind(f, "lock", "`who` may take and wait for locks")
			c.who.bind(f, "write", "`who` may write and delete files")
			c.who.bind(f, "admin", "`who` may change rules, and release others' locks")
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
		err = usagef("who may do what there? give --read, --lock, --write or --admin")
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

// keepsAdmin asks if the caller has admin at a path by a rule, and would not have it
// after a change: nil admins are inherited.
func (a *app) keepsAdmin(ctx context.Context, at string, admins []string) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	access := a.client.Access()
	now, err := access.Check(ctx, at, "")
	if err != nil || !now.Admin.Allowed || now.Admin.Rule == nil {
		return nil // there is nothing to lose, or the change says what is wrong
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
	return a.warnOfLoss(now.Principal, "have admin at "+clean(at), "Who operates the cell")
}

type removeRule struct {
	*app
	yes, below bool
}

func (c *removeRule) command() command {
	return command{
		use: "remove PATH", short: "Remove the rule at a path: what is above decides",
		long: `Removes the rule at PATH: what is above decides there from then on. It asks
first where you would lose admin there yourself; --yes is for scripts.

With --below it removes all rules below PATH in one step, and leaves the one at
PATH. That takes admin at PATH and at each of them.`,
		exits: changeExits("removed", "there was none, or the cell said no"), like: "rm delete del unset", words: c.completeRule(), endless: true,
		flags: func(f *pflag.FlagSet) {
			addYes(f, &c.yes)
			f.BoolVar(&c.below, "below", false, "remove all rules below PATH instead")
		},
	}
}

// run reads the rule first: the cell removes a rule that does not exist, but a person
// has then mistyped a path.
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
			return &failure{code: exitFailed, message: "no rule stands below " + clean(at), expected: true}
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

// Groups.

const groupsHelp = `Lists the groups and their members: users, user:NAME, and other groups,
group:NAME. In a rule a group is group:NAME. It takes operate.`

func (a *app) groups() runner {
	return group{
		use: "groups", short: "List, show, set and remove groups", like: "group", long: groupsHelp, exits: reads, first: true,
		sub: []runner{
			a.listGroups(), a.showGroup(),
			&setGroup{app: a, use: "set NAME MEMBER...", short: "Make a group of these members, and no others", like: "put create",
				long: `Makes the group NAME of the MEMBERs, whoever was in it before. "nobody" is an
empty group. A group can't be a member of itself, not by way of others either.`,
				change: func(_, members []string) []string { return members }},
			&setGroup{app: a, use: "add NAME MEMBER...", short: "Add members to a group", like: "join",
				long: `Adds the MEMBERs to the group NAME, which is made where there is none.`,
				change: func(now, members []string) []string {
					return append(now, slices.DeleteFunc(members, func(m string) bool { return slices.Contains(now, m) })...)
				}},
			&removeGroup{a},
		},
	}
}

// groupAndMembers reads the name of a group, which may be written as in a rule, and
// members.
func groupAndMembers(args []string) (name string, members []string, err error) {
	name = strings.TrimPrefix(args[0], lockapi.PrefixGroup)
	if err := lockapi.ValidateGroup(name); err != nil {
		return "", nil, usagef("%s", err.(*lockapi.Error).Detail)
	}
	if len(args) == 2 && args[1] == nobody {
		return name, nil, nil
	}
	for _, m := range args[1:] {
		if !lockapi.IsMember(m) {
			return "", nil, badPrincipal(m, "user:NAME or, of a group, group:NAME")
		}
		if !slices.Contains(members, m) {
			members = append(members, m)
		}
	}
	return name, members, nil
}

func (a *app) listGroups() runner {
	return viewer(a, command{use: "list", short: "List the groups", long: groupsHelp, exits: reads, like: "ls"},
		func(ctx context.Context, _ []string) (lockapi.GroupList, error) {
			groups, err := a.client.Access().Groups(ctx)
			return lockapi.GroupList{Groups: append([]lockapi.Group{}, groups...)}, err
		}, func(l lockapi.GroupList) {
			if len(l.Groups) == 0 {
				a.ui.note("there is no group")
				return
			}
			a.ui.table([]column{left("GROUP"), right("SIZE"), left("MEMBERS")}, rows(l.Groups, func(g lockapi.Group) []string {
				return []string{clean(g.Name), fmt.Sprint(len(g.Members)), entries(g.Members, 5)}
			}))
		})
}

func (a *app) showGroup() runner {
	return viewer(a, command{
		use: "show NAME", short: "Show a group with all its members", long: "Shows a group with all its members.",
		exits: reads, like: "get members", words: a.completeGroup(),
	}, func(ctx context.Context, args []string) (g lockapi.Group, err error) {
		name, _, err := groupAndMembers(args)
		if err != nil {
			return g, err
		}
		return a.client.Access().Group(ctx, name)
	}, a.printGroup)
}

func (a *app) printGroup(g lockapi.Group) {
	a.ui.pairs([2]string{"group", clean(g.Name)}, [2]string{"members", entries(g.Members, len(g.Members))})
}

// setGroup writes a group. change makes its members of those that it has and those
// that are named.
type setGroup struct {
	*app
	use, short, long, like string
	change                 func(now, members []string) []string
}

func (c *setGroup) command() command {
	return command{
		use: c.use, short: c.short, long: c.long, exits: changes, like: c.like, words: c.completeGroup(), endless: true,
		example: "  stout access groups " + strings.Fields(c.use)[0] + " ops user:ada user:grace",
	}
}

func (c *setGroup) run(ctx context.Context, args []string) error {
	name, members, err := groupAndMembers(args)
	if err != nil {
		return err
	}
	return c.editGroup(ctx, name, true, func(now []string) ([]string, error) { return c.change(now, members), nil })
}

// editGroup changes the members of a group; made says that there need not be one.
func (a *app) editGroup(ctx context.Context, name string, made bool, change func(now []string) ([]string, error)) error {
	access := a.client.Access()
	return edit(ctx, a, func(ctx context.Context) (lockapi.Group, error) {
		g, err := access.Group(ctx, name)
		if made && isNotFound(err) {
			err = nil
		}
		return g, err
	}, func(g *lockapi.Group) (err error) {
		g.Members, err = change(g.Members)
		return err
	}, func(ctx context.Context, g lockapi.Group) (lockapi.Group, error) {
		return access.PutGroup(ctx, name, g.Members)
	}, a.printGroup)
}

type removeGroup struct{ *app }

func (c *removeGroup) command() command {
	return command{
		use: "remove NAME [MEMBER]...", short: "Remove a group, or members from it",
		long: `Removes the group NAME: rules that name it name nobody by that. With MEMBERs it
removes those, and the group stays.`,
		exits: changeExits("removed", "there is none, or the cell said no"), like: "rm delete del leave", words: c.completeGroup(), endless: true,
	}
}

func (c *removeGroup) run(ctx context.Context, args []string) error {
	name, members, err := groupAndMembers(args)
	if err != nil {
		return err
	}
	if len(members) > 0 {
		return c.editGroup(ctx, name, false, func(now []string) ([]string, error) {
			for _, m := range members { // one that is no member was mistyped
				if !slices.Contains(now, m) {
					return nil, &failure{code: exitFailed, message: fmt.Sprintf("%s is no member of %s: nothing was changed", clean(m), clean(name))}
				}
			}
			return slices.DeleteFunc(now, func(m string) bool { return slices.Contains(members, m) }), nil
		})
	}
	reading, cancel := c.bounded(ctx)
	defer cancel()
	access := c.client.Access()
	g, err := access.Group(reading, name)
	if err != nil {
		return err
	}
	return c.remove(ctx, func(ctx context.Context) error { return access.DeleteGroup(ctx, name) },
		"removed group %s, of %s\n", clean(name), plural(len(g.Members), "member"))
}

// The cell.

const cellHelp = `Shows who observes the cell (its state, its sessions and members, its metrics)
and who operates it: may do everything, without a rule. user:root always does.`

func (a *app) cellAccess() runner {
	show := viewer(a, command{use: "show", short: "Show who observes and who operates the cell", long: cellHelp, exits: reads, like: "get list"},
		func(ctx context.Context, _ []string) (lockapi.CellAccess, error) { return a.client.Access().Cell(ctx) }, a.printCellAccess)
	return group{
		use: "cell", short: "Show and set who observes and who operates the cell", like: "operators observers operate observe",
		long: cellHelp, exits: reads, first: true, sub: []runner{show, &setCellAccess{app: a, who: whoFlags{}}},
	}
}

func (a *app) printCellAccess(lists lockapi.CellAccess) {
	withRoot := func(list []string) string {
		list = append([]string{lockapi.PrincipalRoot}, list...)
		return entries(list, len(list))
	}
	a.ui.pairs([2]string{"observe", withRoot(lists.Observe)}, [2]string{"operate", withRoot(lists.Operate)})
}

type setCellAccess struct {
	*app
	who whoFlags
	yes bool
}

func (c *setCellAccess) command() command {
	return command{
		use: "set [--observe WHO] [--operate WHO]", short: "Say who observes and who operates the cell",
		long: `Says who observes and who operates the cell: user:NAME, group:NAME, * for
everybody who is known, or anonymous, separated by commas; "nobody" is an empty
list. What is not given stays as it is.

It asks first where you would not operate the cell any more; --yes is for
scripts.`,
		example: `  stout access cell set --observe '*' --operate group:ops`,
		exits:   changes, values: completeWho("observe", "operate"), endless: true,
		flags: func(f *pflag.FlagSet) {
			c.who.bind(f, "observe", "`who` sees the cell's state, sessions, members and metrics")
			c.who.bind(f, "operate", "`who` may do everything")
			addYes(f, &c.yes)
		},
	}
}

func (c *setCellAccess) run(ctx context.Context, _ []string) error {
	given, err := c.who.lists(c.app)
	if err == nil && len(given) == 0 {
		err = usagef("who does what? give --observe or --operate")
	}
	for name, list := range given {
		if list == nil {
			err = usagef("--%s: there is nothing above the cell to inherit from", name)
		}
	}
	if err != nil {
		return err
	}
	access := c.client.Access()
	return edit(ctx, c.app, access.Cell, func(lists *lockapi.CellAccess) error {
		now := lists.Operate
		if list, ok := given["observe"]; ok {
			lists.Observe = list
		}
		list, ok := given["operate"]
		if !ok {
			return nil
		}
		lists.Operate = list
		return c.keepsOperating(ctx, now, list)
	}, access.PutCell, c.printCellAccess)
}

// keepsOperating asks if the caller is among those who operate the cell, and would not
// be any more.
func (c *setCellAccess) keepsOperating(ctx context.Context, now, then []string) error {
	if c.yes {
		return nil
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	me, err := c.client.Access().WhoAmI(ctx)
	if err != nil || me.Principal == lockapi.PrincipalRoot {
		return nil // root always operates
	}
	book := &rulebook{access: c.client.Access()}
	was, _ := book.entryFor(ctx, now, me.Principal)
	is, _ := book.entryFor(ctx, then, me.Principal)
	if was == "" || is != "" {
		return nil
	}
	return c.warnOfLoss(me.Principal, "operate the cell", "Who has a token of "+lockapi.PrincipalRoot)
}
