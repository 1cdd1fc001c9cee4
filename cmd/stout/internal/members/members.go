// Package members has the commands of an operator of the cell: changes of
// members and of mastership, backups and certificates. The steps of a change and their
// order are the master's.
package members

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/survey"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

type members struct{ *app.App }

// Commands returns the commands of this package.
func Commands(a *app.App) []app.Command {
	m := &members{a}
	return []app.Command{
		{
			Use: "member", Short: "List the members of the cell, and change them", SuggestFor: "members replace",
			Sub: []app.Command{m.listMembers(), m.addMember(), m.removeMember(), m.setMember(), (&replaceMember{members: m}).command()},
		}, {
			Use: "rehearse", Short: "Rehearse a change of master", SuggestFor: "drill gameday exercise chaos", Missing: "name what to rehearse",
			Sub: []app.Command{(&rehearseFailover{App: a}).command()},
		},
		transfer(a), backupCommand(a), certsCommand(a),
	}
}

func (a *members) listMembers() app.Command {
	return app.Viewer(a.App, app.Command{
		Use: "list", Short: "List the members of the cell", SuggestFor: "ls status show", Exits: exit.Reads,
		Long: `Lists the members of the cell. A member is a name with a data directory. A
replica with a wiped or replaced directory is not a member until stout member
replace has installed its new directory. During that change both directories are
listed, the new one as a nonvoter.

"tolerates" is how many more healthy members may fail before the cell stops.
HEALTH is DOWN if the replica does not answer as that member, and "no master" if
it answers but does not reach the master (--stale lists such members without a
master).`,
		Flags: a.AddStale,
	}, func(ctx context.Context, _ []string) (lockapi.Members, error) {
		return a.Admin.Members(ctx, a.ReadOptions()...)
	}, func(list lockapi.Members) { Print(a.App, list) })
}

// Print prints a list of members.
func Print(a *app.App, list lockapi.Members) {
	a.UI.Pairs([2]string{"cell", format.Clean(list.CellID)}, [2]string{"tolerates", Tolerates(a.UI, list)})
	a.UI.Printf("\n")
	a.UI.Table(memberColumns(list), memberRows(a, list.Members))
}

func transfer(a *app.App) app.Command {
	var to string
	return app.Command{
		Use: "transfer [REPLICA]", Short: "Hand mastership over to another replica", SuggestFor: "failover promote stepdown step-down",
		Long: `Hands mastership over to REPLICA, or to one that the cell chooses. Sessions and
locks stay, and the new master does not wait for the old lease to end.`,
		Exits: exit.Changes,
		Example: `  stout transfer
  stout transfer r2`,
		Complete: a.CompleteReplica(), CompleteFlags: map[string]app.Completer{"to": a.CompleteReplica()},
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&to, "to", "", "`id` of the new master, the same as REPLICA")
		},
		Run: func(ctx context.Context, args []string) error {
			if len(args) == 1 {
				if to != "" && to != args[0] {
					return exit.Usagef("%q and --to %q name different replicas", args[0], to)
				}
				to = args[0]
			}
			done, err := a.Admin.Transfer(ctx, to)
			if errors.Is(err, client.ErrOutcomeUnknown) && ctx.Err() != nil {
				return exit.Errorf(exit.Unknown, "the cell did not report within %s whether mastership was handed over", format.Human(a.Options.Timeout)).
					Hint("stout status shows the master; a longer --timeout waits longer")
			}
			return ui.Answer(a.UI, done, err, func(t lockapi.Transferred) { a.UI.Printf("%s is master\n", format.Clean(t.Master)) })
		},
	}
}

// memberColumns returns the columns of memberRows. On a narrow terminal the
// release is dropped last.
func memberColumns(list lockapi.Members) []ui.Column {
	directory := ui.Left("DIRECTORY")
	if len(names(list)) == len(list.Members) { // else it distinguishes two directories of one member
		directory = directory.Drop(3)
	}
	return []ui.Column{
		ui.Left("MEMBER"), ui.Left("ROLE"), ui.Left("SUFFRAGE"), ui.Left("HEALTH"), ui.Right("BEHIND"),
		directory, ui.Left("ADDRESS"), ui.Left("RAFT").Drop(4), ui.Left("VERSION").Drop(1), ui.Right("MEMBER FOR").Drop(2),
	}
}

// Tolerates describes how many more failures the cell tolerates.
func Tolerates(u *ui.UI, list lockapi.Members) string {
	if !slices.ContainsFunc(list.Members, func(m lockapi.Member) bool { return m.Role == lockapi.RoleMaster }) {
		return u.Out.Fail("unknown: the cell has no master")
	}
	text := moreFailures(list.Tolerates)
	if list.Tolerates == 0 {
		return u.Out.Warn(text)
	}
	return text
}

func moreFailures(n int) string {
	if n == 0 {
		return "no more failures"
	}
	return format.Plural(n, "more failure")
}

func memberRows(a *app.App, members []lockapi.Member) [][]string {
	p := a.UI.Out
	members = slices.SortedStableFunc(slices.Values(members), func(x, y lockapi.Member) int { return strings.Compare(x.ID, y.ID) })
	return ui.Rows(members, func(m lockapi.Member) []string {
		role, health, behind, joined := format.Clean(m.Role), p.Fail("DOWN"), "-", "-"
		if m.Role == lockapi.RoleMaster {
			role = p.OK(format.Clean(m.Role))
		}
		if !m.Healthy && m.Version != "" { // it has reported its release but does not reach the master
			health = p.Warn("no master")
		}
		if m.Healthy {
			health, behind = p.OK("ok"), fmt.Sprint(m.Behind)
			if m.Behind > survey.LargeLag {
				behind = p.Warn(behind)
			}
		}
		if !m.Since.IsZero() {
			joined = format.Since(m.Since)
		}
		return []string{
			format.Clean(m.ID), role, format.Clean(m.Suffrage), health, behind, format.Clean(m.Directory),
			a.Address(m.URL), format.Clean(m.RaftAddr), format.Clean(m.Version), joined,
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

func names(list lockapi.Members) []string {
	var ids []string
	for _, m := range list.Members {
		ids = append(ids, format.Clean(m.ID))
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

var memberExits = exit.ChangeExits("done", "the cell refused, or the answer was no")

func (a *members) addMember() app.Command {
	var (
		req      lockapi.AddMemberRequest
		nonvoter bool
	)
	return app.Command{
		Use: "add ID", Short: "Add a replica to the cell", Unlimited: true,
		Long: `Adds the replica ID, which was started with --join and waits for this, to the
cell. Its log and its /readyz show this command with all arguments. The cell
sends it the state, and gives it a vote when it has caught up; stout member list
shows the progress.`,
		Exits: memberExits,
		Example: `  stout member add r4 --directory 5f0a81c2d3e4b697 \
    --raft-addr 10.0.0.4:7201 --url http://10.0.0.4:7101`,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&req.Directory, "directory", "", "`id` of its data directory")
			f.StringVar(&req.RaftAddr, "raft-addr", "", "`host:port` at which the other replicas reach it")
			f.StringVar(&req.URL, "url", "", "base `URL` of its API")
			f.BoolVar(&nonvoter, "nonvoter", false, "add it without a vote, for stale reads and events")
		},
		Run: func(ctx context.Context, args []string) error {
			req := req
			if req.ID = args[0]; nonvoter {
				req.Suffrage = lockapi.SuffrageNonvoter
			}
			if err := req.Validate(); err != nil {
				return exit.Usagef("%s", err.(*lockapi.Error).Detail)
			}
			err := a.notAnothers(ctx, req)
			if err == nil {
				err = a.changeMember(ctx, format.Clean(req.ID)+" was added", func(ctx context.Context) error { return a.Admin.AddMember(ctx, req) })
			}
			return ui.Answer(a.UI, lockapi.MemberChange{ID: req.ID, Directory: req.Directory}, err, func(lockapi.MemberChange) {
				a.UI.Printf("%s is a member without a vote%s\n", req.ID, map[bool]string{false: " until it has caught up"}[nonvoter])
			})
		},
	}
}

// notAnothers refuses a replica that reports another cell: it could do no work
// in this one, even if the names are equal.
func (a *members) notAnothers(ctx context.Context, req lockapi.AddMemberRequest) error {
	asked, cancel := context.WithTimeout(ctx, survey.ProbeTimeout)
	defer cancel()
	is := a.Collector().CellIDAt(asked, req.URL)
	if is == "" {
		return nil
	}
	list, err := a.readMembers(ctx)
	if err != nil || list.CellID == "" || list.CellID == is { // the change itself reports errors
		return nil
	}
	return exit.Errorf(exit.Failed, "the replica at %s belongs to another cell, with id %s; this cell has id %s", format.Clean(req.URL), format.Clean(is), format.Clean(list.CellID)).
		Hint("start it with an empty data directory and --join; nothing was changed")
}

func (a *members) removeMember() app.Command {
	return app.Command{
		Use: "remove ID", Short: "Remove a member from the cell", Complete: a.CompleteReplica(), Unlimited: true,
		Long: `Removes the member ID from the cell. Its process logs that and exits. Its
directory is not used again unless it is added again. A master first hands
mastership over.

The command shows the consequences and asks; --yes skips the question. The cell
refuses if too few other members are healthy. A change made with --force may not
be committed: its outcome is then unknown, and the cell may stop.`,
		Exits: memberExits,
		Flags: a.AddForce,
		Run: func(ctx context.Context, args []string) error {
			id := args[0]
			list, m, err := a.mayLose(ctx, id)
			if err != nil {
				return err
			}
			what := fmt.Sprintf("directory %s, %s, a %s", format.Clean(m.Directory), wellness(m), format.Clean(m.Suffrage))
			if err := a.askToLose(list, m, [2]string{"out", what}, "Remove it?"); err != nil {
				return err
			}
			err = a.changeMember(ctx, format.Clean(id)+" was removed", func(ctx context.Context) error {
				return a.Admin.RemoveMember(ctx, id, lockapi.RemoveMemberRequest{Directory: latest(list, id), Force: a.Options.Force})
			})
			return ui.Answer(a.UI, lockapi.MemberRemoved{ID: id, Removed: true}, err, func(lockapi.MemberRemoved) {
				a.UI.Printf("%s is no longer a member\n", format.Clean(id))
			})
		},
	}
}

// mayLose returns the member that is to lose its vote. The only voter cannot
// lose it, even with --force.
func (a *members) mayLose(ctx context.Context, id string) (list lockapi.Members, m *lockapi.Member, err error) {
	if list, err = a.readMembers(ctx); err != nil {
		return list, nil, err
	}
	if m = present(list, id); m == nil {
		return list, nil, noMember(list, id)
	}
	if others, _ := votersBut(list, id); others == 0 && m.Suffrage == lockapi.SuffrageVoter {
		return list, nil, exit.Errorf(exit.Failed, "%s is the only voter: the cell needs it", format.Clean(id)).
			Hint("first add another voter: stout member add, or stout member set ID --suffrage voter")
	}
	return list, m, nil
}

func noMember(list lockapi.Members, id string) *exit.Failure {
	return exit.Errorf(exit.Failed, "the cell has no member %s", format.Clean(id)).
		Hint("its members are %s", strings.Join(names(list), ", "))
}

// votersBut counts the voters without one member, and how many of them are
// healthy.
func votersBut(list lockapi.Members, id string) (all, well int) {
	for _, o := range list.Members {
		if o.Suffrage == lockapi.SuffrageVoter && o.ID != id {
			all++
			if o.Healthy {
				well++
			}
		}
	}
	return all, well
}

func wellness(m *lockapi.Member) string {
	if m.Healthy {
		return "healthy"
	}
	return "unhealthy"
}

// askToLose describes the cell without a member's vote, and asks, unless --yes
// is given.
func (a *members) askToLose(list lockapi.Members, m *lockapi.Member, change [2]string, question string) error {
	voters, well := votersBut(list, m.ID)
	what := fmt.Sprintf("the cell will have %s: %d healthy and %d needed; it will tolerate %s",
		format.Plural(voters, "voter"), well, voters/2+1, moreFailures(max(0, well-voters/2-1)))
	if a.Options.Yes {
		a.UI.Note("%s", what)
		return nil
	}
	what = ui.Title(what) + "."
	if a.Options.Force {
		what += " With --force and too few healthy voters, the cell may stop, and the outcome stays unknown until they are back."
	}
	return a.AskAfter("the cell loses a vote", what, question, [2]string{"member", format.Clean(m.ID) + "  " + format.Clean(m.URL)}, change)
}

func (a *members) setMember() app.Command {
	var raftAddr, url, suffrage string
	return app.Command{
		Use: "set ID", Short: "Change a member's addresses, or whether it votes", Complete: a.CompleteReplica(), Unlimited: true,
		Long: `Changes the addresses of the member ID, or whether it votes. New addresses apply
at once and override the replicas' settings. A new voter votes when it has
caught up. Removing a vote is checked like a removal, and asks first; a master
first hands mastership over.`,
		Exits: memberExits,
		Example: `  stout member set r2 --raft-addr 10.0.0.9:7201 --url http://10.0.0.9:7101
  stout member set r5 --suffrage nonvoter --yes`,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&raftAddr, "raft-addr", "", "`host:port` at which the other replicas reach it")
			f.StringVar(&url, "url", "", "base `URL` of its API")
			f.StringVar(&suffrage, "suffrage", "", "voter or nonvoter")
			a.AddForce(f)
		},
		CompleteFlags: map[string]app.Completer{"suffrage": app.Words(lockapi.SuffrageVoter, lockapi.SuffrageNonvoter)},
		Run: func(ctx context.Context, args []string) error {
			id, req := args[0], lockapi.SetMemberRequest{Force: a.Options.Force}
			ifGiven := func(name string, value *string) *string {
				if !a.Given(name) {
					return nil
				}
				return value
			}
			req.RaftAddr, req.URL, req.Suffrage = ifGiven("raft-addr", &raftAddr), ifGiven("url", &url), ifGiven("suffrage", &suffrage)
			if err := req.Validate(); err != nil {
				return exit.Usagef("%s", err.(*lockapi.Error).Detail)
			}
			if suffrage == lockapi.SuffrageNonvoter {
				list, m, err := a.mayLose(ctx, id)
				if err == nil && m.Suffrage == lockapi.SuffrageVoter {
					change := [2]string{"vote", fmt.Sprintf("removed; the member is %s and stays without a vote", wellness(m))}
					err = a.askToLose(list, m, change, "Remove its vote?")
				}
				if err != nil {
					return err
				}
			}
			var now lockapi.Member
			err := a.changeMember(ctx, format.Clean(id)+" was changed", func(ctx context.Context) (err error) {
				now, err = a.Admin.SetMember(ctx, id, req)
				return err
			})
			return ui.Answer(a.UI, now, err, func(lockapi.Member) {
				later := ""
				if a.Given("suffrage") && suffrage != now.Suffrage {
					later = "; it gets a vote when it has caught up"
				}
				a.UI.Printf("%s is a %s at %s, %s%s\n", format.Clean(now.ID), format.Clean(now.Suffrage), format.Clean(now.RaftAddr), format.Clean(now.URL), later)
			})
		},
	}
}
