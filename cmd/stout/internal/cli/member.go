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
		long: `Lists the members of the cell. A member is a name and a data directory: a
replica whose directory was wiped or replaced is none, until stout member
replace has put the new directory into the old one's place. While that is under
way both are listed, the new one as a nonvoter.

It also says how many more of the members that are well may fail before the
cell stops. One that is DOWN does not answer as that member; one with no master
answers and does not hear one (--stale shows them where there is none).`,
		flags: func(f *pflag.FlagSet) { addStale(f, &stale) },
	}, func(ctx context.Context, _ []string) (lockapi.Members, error) {
		return a.client.Members(ctx, readOptions(stale)...)
	}, func(list lockapi.Members) {
		a.ui.pairs([2]string{"cell", clean(list.CellID)}, [2]string{"tolerates", a.tolerance(list)})
		a.ui.printf("\n")
		a.ui.table(memberColumns(list), a.memberRows(list.Members))
	})
}

type transfer struct {
	*app
	to string
}

func (c *transfer) command() command {
	return command{
		use: "transfer [REPLICA]", short: "Hand mastership over to another replica", like: "failover promote stepdown step-down",
		long: `Hands mastership over to REPLICA, in good order: sessions and locks stay, and
the new master need not wait for the lease of the old one. Without REPLICA the
cell chooses.`,
		exits: changes,
		example: `  stout transfer
  stout transfer r2`,
		words: c.completeReplica(), values: map[string]completer{"to": c.completeReplica()},
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.to, "to", "", "`id` of the replica that becomes master, the same as REPLICA")
		},
	}
}

func (c *transfer) run(ctx context.Context, args []string) error {
	if len(args) == 1 {
		if c.to != "" && c.to != args[0] {
			return usagef("%q and --to %q name two replicas", args[0], c.to)
		}
		c.to = args[0]
	}
	done, err := c.client.Transfer(ctx, c.to)
	if errors.Is(err, client.ErrOutcomeUnknown) && ctx.Err() != nil {
		return (&failure{code: exitUnknown, message: fmt.Sprintf("the cell did not say within %s whether mastership was handed over", human(c.opts.timeout))}).
			hint("stout status shows who is master; --timeout waits for longer")
	}
	return answer(c.ui, done, err, func(t lockapi.Transferred) { c.ui.printf("%s is master\n", clean(t.Master)) })
}

// memberColumns are those of memberRows. On a narrow terminal the release goes last.
func memberColumns(list lockapi.Members) []column {
	directory := left("DIRECTORY")
	if len(names(list)) == len(list.Members) { // else it tells two of a name apart
		directory = directory.sparing(3)
	}
	return []column{
		left("MEMBER"), left("ROLE"), left("SUFFRAGE"), left("HEALTH"), right("BEHIND"),
		directory, left("ADDRESS"), left("RAFT").sparing(4), left("VERSION").sparing(1), right("MEMBER FOR").sparing(2),
	}
}

// tolerance says how many failures a cell tolerates.
func (a *app) tolerance(list lockapi.Members) string {
	if !slices.ContainsFunc(list.Members, func(m lockapi.Member) bool { return m.Role == lockapi.RoleMaster }) {
		return a.ui.out.fail.Render("not known: the cell has no master")
	}
	text := moreFailures(list.Tolerates)
	if list.Tolerates == 0 {
		return a.ui.out.warn.Render(text)
	}
	return text
}

func moreFailures(n int) string {
	if n == 0 {
		return "no more failure"
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
		if !m.Healthy && m.Version != "" { // it has told its release, and hears no master
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

// places are the directories under a member's name: the one that votes, and the
// one that is to take its place, each nil where there is none.
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

// latest is the directory of a member that was named last: the one that it has, or is
// about to have.
func latest(list lockapi.Members, id string) string {
	voter, next := places(list, id)
	return cmp.Or(next, voter).Directory
}

// names lists the members' names, each once.
func names(list lockapi.Members) []string {
	var ids []string
	for _, m := range list.Members {
		ids = append(ids, clean(m.ID))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// present is the directory that has a member's name, or is about to: nil where
// the cell has no member of that name.
func present(list lockapi.Members, id string) *lockapi.Member {
	voter, next := places(list, id)
	return cmp.Or(voter, next)
}
