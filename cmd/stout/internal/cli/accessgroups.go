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

func (a *app) groupsCommand() *cobra.Command {
	show := func(cmd *cobra.Command, _ []string) error { return a.groups(cmd.Context()) }
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "List, show, set and remove groups",
		Long: `Lists the groups and their members: users, user:NAME, and other groups,
group:NAME. In a rule a group is group:NAME. It takes operate.

` + exitHelp,
		SuggestFor:        []string{"group"},
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              show,
	}
	list := &cobra.Command{
		Use: "list", Short: "List the groups", Long: cmd.Long, SuggestFor: []string{"ls"},
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions, RunE: show,
	}
	one := &cobra.Command{
		Use: "show NAME", Short: "Show a group with all its members", Long: "Shows a group with all its members.\n\n" + exitHelp,
		SuggestFor: []string{"get", "members"}, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := groupName(args[0])
			if err != nil {
				return err
			}
			return a.showGroup(cmd.Context(), name)
		},
	}
	cmd.AddCommand(list, one, a.changeGroupCommand("set NAME MEMBER...", "Make a group of these members, and no others",
		`Makes the group NAME of the MEMBERs, whoever was in it before. "nobody" is an
empty group. A group can't be a member of itself, not by way of others either.`,
		func(_, members []string) []string { return members }, "put", "create"),
		a.changeGroupCommand("add NAME MEMBER...", "Add members to a group",
			`Adds the MEMBERs to the group NAME, which is made where there is none.`,
			func(now, members []string) []string {
				return append(now, slices.DeleteFunc(members, func(m string) bool { return slices.Contains(now, m) })...)
			}, "join"),
		a.removeGroupCommand())
	return cmd
}

// groupName is the name of a group, which may be written as in a rule.
func groupName(word string) (string, error) {
	name := strings.TrimPrefix(word, lockapi.PrefixGroup)
	if err := lockapi.ValidateGroup(name); err != nil {
		return "", usagef("%s", err.(*lockapi.Error).Detail)
	}
	return name, nil
}

// membersOf reads members from the command line.
func membersOf(words []string) ([]string, error) {
	if len(words) == 1 && words[0] == nobody {
		return nil, nil
	}
	var members []string
	for _, m := range words {
		if !lockapi.IsMember(m) {
			return nil, badPrincipal(m, "user:NAME or, of a group, group:NAME")
		}
		if !slices.Contains(members, m) {
			members = append(members, m)
		}
	}
	return members, nil
}

func (a *app) groups(ctx context.Context) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	groups, err := a.client.Access().Groups(ctx)
	switch {
	case err != nil:
		return aboutAccess(err)
	case a.ui.json:
		return a.ui.object(lockapi.GroupList{Groups: append([]lockapi.Group{}, groups...)})
	case len(groups) == 0:
		a.ui.note("there is no group")
		return nil
	}
	rows := make([][]string, 0, len(groups))
	for _, g := range groups {
		rows = append(rows, []string{clean(g.Name), fmt.Sprint(len(g.Members)), entries(g.Members, 5)})
	}
	a.ui.table([]column{left("GROUP"), right("SIZE"), left("MEMBERS")}, rows)
	return nil
}

func (a *app) showGroup(ctx context.Context, name string) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	g, err := a.client.Access().Group(ctx, name)
	if err != nil {
		return aboutAccess(err)
	}
	return a.tellGroup(&g)
}

func (a *app) tellGroup(g *lockapi.Group) error {
	if a.ui.json {
		return a.ui.object(g)
	}
	a.ui.pairs([2]string{"group", clean(g.Name)}, [2]string{"members", entries(g.Members, len(g.Members))})
	return nil
}

// changeGroupCommand is a command that writes a group, whose members change makes
// of those that it has and those that are named.
func (a *app) changeGroupCommand(use, short, long string, change func(now, members []string) []string, like ...string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long + "\n\n" + changeHelp, SuggestFor: like,
		Example:           "  stout access groups " + strings.Fields(use)[0] + " ops user:ada user:grace",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: a.completeGroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := groupName(args[0])
			if err != nil {
				return err
			}
			members, err := membersOf(args[1:])
			if err != nil {
				return err
			}
			return a.changeGroup(cmd.Context(), name, true, func(now []string) ([]string, error) { return change(now, members), nil })
		},
	}
}

// changeGroup writes a group; made says that there need not be one.
func (a *app) changeGroup(ctx context.Context, name string, made bool, change func(now []string) ([]string, error)) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	g, err := a.client.Access().Group(ctx, name)
	if refused, ok := errors.AsType[*lockapi.Error](err); ok && refused.Code == lockapi.CodeNotFound && made {
		err = nil
	}
	if err != nil {
		return aboutAccess(err)
	}
	members, err := change(g.Members)
	if err != nil {
		return err
	}
	if g, err = a.client.Access().PutGroup(ctx, name, members); err != nil {
		return aboutAccess(err)
	}
	return a.tellGroup(&g)
}

func (a *app) removeGroupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME [MEMBER]...",
		Short: "Remove a group, or members from it",
		Long: `Removes the group NAME: rules that name it name nobody by that. With MEMBERs it
removes those, and the group stays.

Exit codes: 0 removed, 1 there is none, or the cell said no, 2 wrong usage, 3
the cell has no master, 4 no replica can be reached, 6 it is not known whether
it is done.`,
		SuggestFor:        []string{"rm", "delete", "del", "leave"},
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeGroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := groupName(args[0])
			if err != nil {
				return err
			}
			members, err := membersOf(args[1:])
			switch {
			case err != nil:
				return err
			case len(members) > 0:
				return a.leaveGroup(cmd.Context(), name, members)
			}
			return a.removeGroup(cmd.Context(), name)
		},
	}
}

// leaveGroup refuses to remove who is no member: that is mistyped.
func (a *app) leaveGroup(ctx context.Context, name string, members []string) error {
	return a.changeGroup(ctx, name, false, func(now []string) ([]string, error) {
		for _, m := range members {
			if !slices.Contains(now, m) {
				return nil, &failure{code: exitFailed, message: fmt.Sprintf("%s is no member of %s: nothing was changed", clean(m), clean(name))}
			}
		}
		return slices.DeleteFunc(now, func(m string) bool { return slices.Contains(members, m) }), nil
	})
}

func (a *app) removeGroup(ctx context.Context, name string) error {
	read, cancel := a.bounded(ctx)
	defer cancel()
	g, err := a.client.Access().Group(read, name)
	if err != nil {
		return aboutAccess(err)
	}
	if err := a.removed(ctx, func(ctx context.Context, c client.Access) error { return c.DeleteGroup(ctx, name) }); err != nil || a.ui.json {
		return err
	}
	a.ui.printf("removed group %s, of %s\n", clean(name), plural(len(g.Members), "member"))
	return nil
}

func (a *app) cellAccessCommand() *cobra.Command {
	show := func(cmd *cobra.Command, _ []string) error { return a.cellAccess(cmd.Context()) }
	cmd := &cobra.Command{
		Use:   "cell",
		Short: "Show and set who observes and who operates the cell",
		Long: `Shows who observes the cell (its state, its sessions and members, its metrics)
and who operates it: may do everything, without a rule. user:root always does.

` + exitHelp,
		SuggestFor:        []string{"operators", "observers", "operate", "observe"},
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              show,
	}
	one := &cobra.Command{
		Use: "show", Short: cmd.Short[:len("Show")] + " who observes and who operates the cell", Long: cmd.Long,
		SuggestFor: []string{"get", "list"}, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions, RunE: show,
	}
	var observe, operate []string
	var yes bool
	set := &cobra.Command{
		Use:   "set [--observe WHO] [--operate WHO]",
		Short: "Say who observes and who operates the cell",
		Long: `Says who observes and who operates the cell: user:NAME, group:NAME, * for
everybody who is known, or anonymous, separated by commas; "nobody" is an empty
list. What is not given stays as it is.

It asks first where you would not operate the cell any more; --yes is for
scripts.

` + changeHelp,
		Example:               `  stout access cell set --observe '*' --operate group:ops`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.NoArgs,
		ValidArgsFunction:     cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lists := make(map[string][]string)
			for name, given := range map[string][]string{"observe": observe, "operate": operate} {
				if !cmd.Flags().Changed(name) {
					continue
				}
				list, err := whoOf(name, given)
				switch {
				case err != nil:
					return err
				case list == nil:
					return usagef("--%s: there is nothing above the cell to inherit from", name)
				}
				lists[name] = list
			}
			if len(lists) == 0 {
				return usagef("who does what? give --observe or --operate")
			}
			return a.setCellAccess(cmd.Context(), lists, yes)
		},
	}
	addWho(set, &observe, "observe", "`who` sees the cell's state, sessions, members and metrics")
	addWho(set, &operate, "operate", "`who` may do everything")
	addYes(set.Flags(), &yes)
	cmd.AddCommand(one, set)
	return cmd
}

func (a *app) cellAccess(ctx context.Context) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	lists, err := a.client.Access().Cell(ctx)
	if err != nil {
		return aboutAccess(err)
	}
	return a.tellCellAccess(lists)
}

func (a *app) tellCellAccess(lists lockapi.CellAccess) error {
	if a.ui.json {
		return a.ui.object(lists)
	}
	always := func(list []string) string {
		text := lockapi.PrincipalRoot
		if len(list) > 0 {
			text += ", " + entries(list, len(list))
		}
		return text
	}
	a.ui.pairs([2]string{"observe", always(lists.Observe)}, [2]string{"operate", always(lists.Operate)})
	return nil
}

func (a *app) setCellAccess(ctx context.Context, given map[string][]string, yes bool) error {
	read, cancel := a.bounded(ctx)
	defer cancel()
	access := a.client.Access()
	now, err := access.Cell(read)
	if err != nil {
		return aboutAccess(err)
	}
	lists := now
	if list, ok := given["observe"]; ok {
		lists.Observe = list
	}
	if list, ok := given["operate"]; ok {
		lists.Operate = list
		if err := a.keepsOperating(ctx, now.Operate, list, yes); err != nil {
			return err
		}
	}
	ctx, cancel = a.bounded(ctx)
	defer cancel()
	if lists, err = access.PutCell(ctx, lists); err != nil {
		return aboutAccess(err)
	}
	return a.tellCellAccess(lists)
}

// keepsOperating asks, where whoever calls is among those who operate the cell,
// and would not be any more.
func (a *app) keepsOperating(ctx context.Context, now, then []string, yes bool) error {
	if yes {
		return nil
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	me, err := a.client.Access().WhoAmI(ctx)
	if err != nil || me.Principal == lockapi.PrincipalRoot {
		return nil // root always operates
	}
	book := &rulebook{access: a.client.Access()}
	if entry, _ := book.entryFor(ctx, now, me.Principal); entry == "" {
		return nil
	}
	if entry, _ := book.entryFor(ctx, then, me.Principal); entry != "" {
		return nil
	}
	return a.warn(false, "after that you would not operate the cell",
		fmt.Sprintf("You are %s, and would not operate the cell any more: you could not take it back. Who has a token of %s could.", clean(me.Principal), lockapi.PrincipalRoot),
		"Do it all the same?")
}
