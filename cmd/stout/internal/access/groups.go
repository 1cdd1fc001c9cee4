package access

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

const groupsHelp = `Lists the groups and their members. A member is a user, user:NAME, or another
group, group:NAME. Rules refer to a group as group:NAME. This needs the right to
operate the cell.`

type groups struct{ *app.App }

func (a *groups) command() app.Command {
	return app.Command{
		Use: "groups", Short: "List, show, set and remove groups", SuggestFor: "group", First: true,
		Sub: []app.Command{
			a.listGroups(), a.showGroup(),
			a.setGroup(app.Command{
				Use: "set NAME MEMBER...", Short: "Replace the members of a group", SuggestFor: "put create",
				Long: `Sets the members of the group NAME, replacing any earlier ones. "nobody" makes
an empty group. A group cannot contain itself, directly or through other groups.`,
			}, func(_, members []string) []string { return members }),
			a.setGroup(app.Command{
				Use: "add NAME MEMBER...", Short: "Add members to a group", SuggestFor: "join",
				Long: `Adds the MEMBERs to the group NAME. A missing group is created.`,
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
		return "", nil, exit.Usagef("%s", err.(*lockapi.Error).Detail)
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

func (a *groups) listGroups() app.Command {
	return app.Viewer(a.App, app.Command{Use: "list", Short: "List the groups", Long: groupsHelp, Exits: exit.Reads, SuggestFor: "ls"},
		func(ctx context.Context, _ []string) (lockapi.GroupList, error) {
			groups, err := a.Admin.Access().Groups(ctx)
			return lockapi.GroupList{Groups: append([]lockapi.Group{}, groups...)}, err
		}, func(l lockapi.GroupList) {
			ui.List(a.UI, l.Groups, "the cell has no groups", []ui.Column{ui.Left("GROUP"), ui.Right("SIZE"), ui.Left("MEMBERS")}, func(g lockapi.Group) []string {
				return []string{format.Clean(g.Name), fmt.Sprint(len(g.Members)), entries(g.Members, 5)}
			})
		})
}

func (a *groups) showGroup() app.Command {
	return app.Viewer(a.App, app.Command{
		Use: "show NAME", Short: "Show a group with all its members", Long: "Shows a group with all its members.",
		Exits: exit.Reads, SuggestFor: "get members", Complete: completeGroup(a.App),
	}, func(ctx context.Context, args []string) (g lockapi.Group, err error) {
		name, _, err := groupAndMembers(args)
		if err != nil {
			return g, err
		}
		return a.Admin.Access().Group(ctx, name)
	}, a.printGroup)
}

func (a *groups) printGroup(g lockapi.Group) {
	a.UI.Pairs([2]string{"group", format.Clean(g.Name)}, [2]string{"members", entries(g.Members, len(g.Members))})
}

// setGroup writes a group. change computes the new members from the current and
// the named ones.
func (a *groups) setGroup(row app.Command, change func(now, members []string) []string) app.Command {
	row.Exits, row.Complete, row.Unlimited = exit.Changes, completeGroup(a.App), true
	row.Example = "  stout access groups " + strings.Fields(row.Use)[0] + " ops user:ada user:grace"
	row.Run = func(ctx context.Context, args []string) error {
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
func (a *groups) editGroup(ctx context.Context, name string, create bool, change func(now []string) ([]string, error)) error {
	access := a.Admin.Access()
	return edit(ctx, a.App, func(ctx context.Context) (lockapi.Group, error) {
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

func (a *groups) removeGroup() app.Command {
	return app.Command{
		Use: "remove NAME [MEMBER]...", Short: "Remove a group, or some of its members",
		Long: `Removes the group NAME. Rules that name it then match no callers by it. With
MEMBERs, it removes only these members.`,
		Exits: exit.ChangeExits("removed", "it does not exist, or the cell refused"), SuggestFor: "rm delete del leave", Complete: completeGroup(a.App), Unlimited: true,
		Run: func(ctx context.Context, args []string) error {
			name, members, err := groupAndMembers(args)
			if err != nil {
				return err
			}
			if len(members) > 0 {
				return a.editGroup(ctx, name, false, func(now []string) ([]string, error) {
					for _, m := range members { // an unknown member is a typing error
						if !slices.Contains(now, m) {
							return nil, exit.Errorf(exit.Failed, "%s is not a member of %s: nothing was changed", format.Clean(m), format.Clean(name))
						}
					}
					return slices.DeleteFunc(now, func(m string) bool { return slices.Contains(members, m) }), nil
				})
			}
			var g lockapi.Group
			return remove(ctx, a.App, func(ctx context.Context) (err error) {
				if g, err = a.Admin.Access().Group(ctx, name); err == nil {
					err = a.Admin.Access().DeleteGroup(ctx, name)
				}
				return err
			}, func() {
				a.UI.Printf("removed group %s, of %s\n", format.Clean(name), format.Plural(len(g.Members), "member"))
			})
		},
	}
}

func completeGroup(a *app.App) app.Completer {
	return app.Offers(a, func(ctx context.Context, _ string) iter.Seq2[lockapi.Group, error] {
		return app.Listed(a.Admin.Access().Groups(ctx))
	}, func(g lockapi.Group) (string, string) { return g.Name, format.Plural(len(g.Members), "member") })
}
