package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

const groupsHelp = `Lists the groups and their members. A member is a user, user:NAME, or another
group, group:NAME. Rules refer to a group as group:NAME. This needs the right to
operate the cell.`

func (a *app) groups() command {
	return command{
		use: "groups", short: "List, show, set and remove groups", like: "group", first: true,
		sub: []command{
			a.listGroups(), a.showGroup(),
			a.setGroup(command{
				use: "set NAME MEMBER...", short: "Replace the members of a group", like: "put create",
				long: `Sets the members of the group NAME, replacing any earlier ones. "nobody" makes
an empty group. A group cannot contain itself, directly or through other groups.`,
			}, func(_, members []string) []string { return members }),
			a.setGroup(command{
				use: "add NAME MEMBER...", short: "Add members to a group", like: "join",
				long: `Adds the MEMBERs to the group NAME. A missing group is created.`,
			}, func(now, members []string) []string {
				return append(now, slices.DeleteFunc(members, func(m string) bool { return slices.Contains(now, m) })...)
			}),
			a.removeGroup(),
		},
	}
}

// groupAndMembers parses a group name, with or without the prefix of rules, and
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
			return "", nil, badPrincipal(m, "user:NAME, or group:NAME for a group")
		}
		if !slices.Contains(members, m) {
			members = append(members, m)
		}
	}
	return name, members, nil
}

func (a *app) listGroups() command {
	return viewer(a, command{use: "list", short: "List the groups", long: groupsHelp, exits: reads, like: "ls"},
		func(ctx context.Context, _ []string) (lockapi.GroupList, error) {
			groups, err := a.admin.Access().Groups(ctx)
			return lockapi.GroupList{Groups: append([]lockapi.Group{}, groups...)}, err
		}, func(l lockapi.GroupList) {
			list(a.ui, l.Groups, "the cell has no groups", []column{left("GROUP"), right("SIZE"), left("MEMBERS")}, func(g lockapi.Group) []string {
				return []string{format.Clean(g.Name), fmt.Sprint(len(g.Members)), entries(g.Members, 5)}
			})
		})
}

func (a *app) showGroup() command {
	return viewer(a, command{
		use: "show NAME", short: "Show a group with all its members", long: "Shows a group with all its members.",
		exits: reads, like: "get members", words: a.completeGroup(),
	}, func(ctx context.Context, args []string) (g lockapi.Group, err error) {
		name, _, err := groupAndMembers(args)
		if err != nil {
			return g, err
		}
		return a.admin.Access().Group(ctx, name)
	}, a.printGroup)
}

func (a *app) printGroup(g lockapi.Group) {
	a.ui.pairs([2]string{"group", format.Clean(g.Name)}, [2]string{"members", entries(g.Members, len(g.Members))})
}

// setGroup writes a group. change computes the new members from the current and
// the named ones.
func (a *app) setGroup(row command, change func(now, members []string) []string) command {
	row.exits, row.words, row.endless = changes, a.completeGroup(), true
	row.example = "  stout access groups " + strings.Fields(row.use)[0] + " ops user:ada user:grace"
	row.run = func(ctx context.Context, args []string) error {
		name, members, err := groupAndMembers(args)
		if err != nil {
			return err
		}
		return a.editGroup(ctx, name, true, func(now []string) ([]string, error) { return change(now, members), nil })
	}
	return row
}

// editGroup changes the members of a group. create allows a group that does not
// exist yet.
func (a *app) editGroup(ctx context.Context, name string, create bool, change func(now []string) ([]string, error)) error {
	access := a.admin.Access()
	return edit(ctx, a, func(ctx context.Context) (lockapi.Group, error) {
		g, err := access.Group(ctx, name)
		if create && errors.Is(err, lockapi.CodeNotFound) {
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

func (a *app) removeGroup() command {
	return command{
		use: "remove NAME [MEMBER]...", short: "Remove a group, or some of its members",
		long: `Removes the group NAME. Rules that name it then match no callers by it. With
MEMBERs, it removes only these members.`,
		exits: changeExits("removed", "it does not exist, or the cell refused"), like: "rm delete del leave", words: a.completeGroup(), endless: true,
		run: func(ctx context.Context, args []string) error {
			name, members, err := groupAndMembers(args)
			if err != nil {
				return err
			}
			if len(members) > 0 {
				return a.editGroup(ctx, name, false, func(now []string) ([]string, error) {
					for _, m := range members { // an unknown member is a typing error
						if !slices.Contains(now, m) {
							return nil, &failure{code: exitFailed, message: fmt.Sprintf("%s is not a member of %s: nothing was changed", format.Clean(m), format.Clean(name))}
						}
					}
					return slices.DeleteFunc(now, func(m string) bool { return slices.Contains(members, m) }), nil
				})
			}
			var g lockapi.Group
			return a.remove(ctx, func(ctx context.Context) (err error) {
				if g, err = a.admin.Access().Group(ctx, name); err == nil {
					err = a.admin.Access().DeleteGroup(ctx, name)
				}
				return err
			}, func() {
				a.ui.printf("removed group %s, of %s\n", format.Clean(name), format.Plural(len(g.Members), "member"))
			})
		},
	}
}
