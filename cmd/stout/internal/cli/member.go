package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) members() runner {
	return group{
		use: "member", short: "List the members of the cell, and change them", like: "members replace",
		sub: []runner{a.listMembers(), &addMember{app: a}, &removeMember{app: a}, &setMember{app: a}, &replaceMember{app: a}},
	}
}

func (a *app) listMembers() runner {
	var stale bool
	return viewer(a, command{
		use: "list", short: "List the members of the cell", like: "ls status show", exits: reads,
		long: `Lists the members of the cell. A member is a name with a data directory. A
replica with a wiped or replaced directory is not a member until stout member
replace has installed its new directory. During that change both directories are
listed, the new one as a nonvoter.

"tolerates" is how many more healthy members may fail before the cell stops.
HEALTH is DOWN if the replica does not answer as that member, and "no master" if
it answers but does not reach the master (--stale lists such members without a
master).`,
		flags: func(f *pflag.FlagSet) { addStale(f, &stale) },
	}, func(ctx context.Context, _ []string) (lockapi.Members, error) {
		return a.client.Members(ctx, readOptions(stale)...)
	}, a.printMembers)
}

func (a *app) printMembers(list lockapi.Members) {
	a.ui.pairs([2]string{"cell", clean(list.CellID)}, [2]string{"tolerates", a.tolerance(list)})
	a.ui.printf("\n")
	a.ui.table(memberColumns(list), a.memberRows(list.Members))
}

type transfer struct {
	*app
	to string
}

func (c *transfer) command() command {
	return command{
		use: "transfer [REPLICA]", short: "Hand mastership over to another replica", like: "failover promote stepdown step-down",
		long: `Hands mastership over to REPLICA, or to one that the cell chooses. Sessions and
locks stay, and the new master does not wait for the old lease to end.`,
		exits: changes,
		example: `  stout transfer
  stout transfer r2`,
		words: c.completeReplica(), values: map[string]completer{"to": c.completeReplica()},
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.to, "to", "", "`id` of the new master, the same as REPLICA")
		},
	}
}

func (c *transfer) run(ctx context.Context, args []string) error {
	if len(args) == 1 {
		if c.to != "" && c.to != args[0] {
			return usagef("%q and --to %q name different replicas", args[0], c.to)
		}
		c.to = args[0]
	}
	done, err := c.client.Transfer(ctx, c.to)
	if errors.Is(err, client.ErrOutcomeUnknown) && ctx.Err() != nil {
		return (&failure{code: exitUnknown, message: fmt.Sprintf("the cell did not report within %s whether mastership was handed over", human(c.opts.timeout))}).
			hint("stout status shows the master; a longer --timeout waits longer")
	}
	return answer(c.ui, done, err, func(t lockapi.Transferred) { c.ui.printf("%s is master\n", clean(t.Master)) })
}

// memberColumns returns the columns of memberRows. On a narrow terminal the
// release is dropped last.
func memberColumns(list lockapi.Members) []column {
	directory := left("DIRECTORY")
	if len(names(list)) == len(list.Members) { // else it distinguishes two directories of one member
		directory = directory.sparing(3)
	}
	return []column{
		left("MEMBER"), left("ROLE"), left("SUFFRAGE"), left("HEALTH"), right("BEHIND"),
		directory, left("ADDRESS"), left("RAFT").sparing(4), left("VERSION").sparing(1), right("MEMBER FOR").sparing(2),
	}
}

// tolerance returns how many failures a cell tolerates.
func (a *app) tolerance(list lockapi.Members) string {
	if !slices.ContainsFunc(list.Members, func(m lockapi.Member) bool { return m.Role == lockapi.RoleMaster }) {
		return a.ui.out.fail.Render("unknown: the cell has no master")
	}
	text := moreFailures(list.Tolerates)
	if list.Tolerates == 0 {
		return a.ui.out.warn.Render(text)
	}
	return text
}

func moreFailures(n int) string {
	if n == 0 {
		return "no more failures"
	}
	return plural(n, "more failure")
}

func (a *app) memberRows(members []lockapi.Member) [][]string {
	p := a.ui.out
	members = slices.SortedStableFunc(slices.Values(members), func(x, y lockapi.Member) int { return strings.Compare(x.ID, y.ID) })
	return rows(members, func(m lockapi.Member) []string {
		role, health, behind, joined := p.plain.Render(clean(m.Role)), p.fail.Render("DOWN"), "-", "-"
		if m.Role == lockapi.RoleMaster {
			role = p.good.Render(clean(m.Role))
		}
		if !m.Healthy && m.Version != "" { // it has reported its release but does not reach the master
			health = p.warn.Render("no master")
		}
		if m.Healthy {
			health, behind = p.good.Render("ok"), fmt.Sprint(m.Behind)
			if m.Behind > largeLag {
				behind = p.warn.Render(behind)
			}
		}
		if !m.Since.IsZero() {
			joined = since(m.Since)
		}
		return []string{
			clean(m.ID), role, clean(m.Suffrage), health, behind, clean(m.Directory),
			a.address(m.URL), clean(m.RaftAddr), clean(m.Version), joined,
		}
	})
}

// places returns the directories under a member's name: the one with the vote
// and its replacement, each nil if missing.
func places(list lockapi.Members, id string) (voter, next *lockapi.Member) {
	for i := range list.Members {
		switch m := &list.Members[i]; {
		case m.ID != id:
		case m.Suffrage == lockapi.SuffrageVoter:
			voter = m
		default:
			next = m
		}
	}
	return voter, next
}

// latest returns the directory of a member that was named last: its own or its
// replacement.
func latest(list lockapi.Members, id string) string {
	voter, next := places(list, id)
	return cmp.Or(next, voter).Directory
}

// names returns the members' names without duplicates.
func names(list lockapi.Members) []string {
	var ids []string
	for _, m := range list.Members {
		ids = append(ids, clean(m.ID))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// present returns the directory that has or will have a member's name, or nil
// if there is no such member.
func present(list lockapi.Members, id string) *lockapi.Member {
	voter, next := places(list, id)
	return cmp.Or(voter, next)
}
