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
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) listMembers() command {
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
		flags: a.addStale,
	}, func(ctx context.Context, _ []string) (lockapi.Members, error) {
		return a.admin.Members(ctx, a.readOptions()...)
	}, a.printMembers)
}

func (a *app) printMembers(list lockapi.Members) {
	a.ui.pairs([2]string{"cell", format.Clean(list.CellID)}, [2]string{"tolerates", a.tolerance(list)})
	a.ui.printf("\n")
	a.ui.table(memberColumns(list), a.memberRows(list.Members))
}

func (a *app) transfer() command {
	var to string
	return command{
		use: "transfer [REPLICA]", short: "Hand mastership over to another replica", like: "failover promote stepdown step-down",
		long: `Hands mastership over to REPLICA, or to one that the cell chooses. Sessions and
locks stay, and the new master does not wait for the old lease to end.`,
		exits: changes,
		example: `  stout transfer
  stout transfer r2`,
		words: a.completeReplica(), values: map[string]completer{"to": a.completeReplica()},
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&to, "to", "", "`id` of the new master, the same as REPLICA")
		},
		run: func(ctx context.Context, args []string) error {
			if len(args) == 1 {
				if to != "" && to != args[0] {
					return usagef("%q and --to %q name different replicas", args[0], to)
				}
				to = args[0]
			}
			done, err := a.admin.Transfer(ctx, to)
			if errors.Is(err, client.ErrOutcomeUnknown) && ctx.Err() != nil {
				return (&failure{code: exitUnknown, message: fmt.Sprintf("the cell did not report within %s whether mastership was handed over", format.Human(a.opts.timeout))}).
					hint("stout status shows the master; a longer --timeout waits longer")
			}
			return answer(a.ui, done, err, func(t lockapi.Transferred) { a.ui.printf("%s is master\n", format.Clean(t.Master)) })
		},
	}
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

func (a *app) tolerance(list lockapi.Members) string {
	if !slices.ContainsFunc(list.Members, func(m lockapi.Member) bool { return m.Role == lockapi.RoleMaster }) {
		return a.ui.out.Fail("unknown: the cell has no master")
	}
	text := moreFailures(list.Tolerates)
	if list.Tolerates == 0 {
		return a.ui.out.Warn(text)
	}
	return text
}

func moreFailures(n int) string {
	if n == 0 {
		return "no more failures"
	}
	return format.Plural(n, "more failure")
}

func (a *app) memberRows(members []lockapi.Member) [][]string {
	p := a.ui.out
	members = slices.SortedStableFunc(slices.Values(members), func(x, y lockapi.Member) int { return strings.Compare(x.ID, y.ID) })
	return rows(members, func(m lockapi.Member) []string {
		role, health, behind, joined := format.Clean(m.Role), p.Fail("DOWN"), "-", "-"
		if m.Role == lockapi.RoleMaster {
			role = p.OK(format.Clean(m.Role))
		}
		if !m.Healthy && m.Version != "" { // it has reported its release but does not reach the master
			health = p.Warn("no master")
		}
		if m.Healthy {
			health, behind = p.OK("ok"), fmt.Sprint(m.Behind)
			if m.Behind > largeLag {
				behind = p.Warn(behind)
			}
		}
		if !m.Since.IsZero() {
			joined = format.Since(m.Since)
		}
		return []string{
			format.Clean(m.ID), role, format.Clean(m.Suffrage), health, behind, format.Clean(m.Directory),
			a.address(m.URL), format.Clean(m.RaftAddr), format.Clean(m.Version), joined,
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

var memberExits = changeExits("done", "the cell refused, or the answer was no")

func (a *app) addMember() command {
	var (
		req      lockapi.AddMemberRequest
		nonvoter bool
	)
	return command{
		use: "add ID", short: "Add a replica to the cell", endless: true,
		long: `Adds the replica ID, which was started with --join and waits for this, to the
cell. Its log and its /readyz show this command with all arguments. The cell
sends it the state, and gives it a vote when it has caught up; stout member list
shows the progress.`,
		exits: memberExits,
		example: `  stout member add r4 --directory 5f0a81c2d3e4b697 \
    --raft-addr 10.0.0.4:7201 --url http://10.0.0.4:7101`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&req.Directory, "directory", "", "`id` of its data directory")
			f.StringVar(&req.RaftAddr, "raft-addr", "", "`host:port` at which the other replicas reach it")
			f.StringVar(&req.URL, "url", "", "base `URL` of its API")
			f.BoolVar(&nonvoter, "nonvoter", false, "add it without a vote, for stale reads and events")
		},
		run: func(ctx context.Context, args []string) error {
			req := req
			if req.ID = args[0]; nonvoter {
				req.Suffrage = lockapi.SuffrageNonvoter
			}
			if err := req.Validate(); err != nil {
				return usagef("%s", err.(*lockapi.Error).Detail)
			}
			err := a.notAnothers(ctx, req)
			if err == nil {
				err = a.changeMember(ctx, format.Clean(req.ID)+" was added", func(ctx context.Context) error { return a.admin.AddMember(ctx, req) })
			}
			return answer(a.ui, lockapi.MemberChange{ID: req.ID, Directory: req.Directory}, err, func(lockapi.MemberChange) {
				a.ui.printf("%s is a member without a vote%s\n", req.ID, map[bool]string{false: " until it has caught up"}[nonvoter])
			})
		},
	}
}

// notAnothers refuses a replica that reports another cell: it could do no work
// in this one, even if the names are equal.
func (a *app) notAnothers(ctx context.Context, req lockapi.AddMemberRequest) error {
	asked, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	is := a.cellIDAt(asked, req.URL)
	if is == "" {
		return nil
	}
	list, err := a.readMembers(ctx)
	if err != nil || list.CellID == "" || list.CellID == is { // the change itself reports errors
		return nil
	}
	return (&failure{code: exitFailed, message: fmt.Sprintf("the replica at %s belongs to another cell, with id %s; this cell has id %s", format.Clean(req.URL), format.Clean(is), format.Clean(list.CellID))}).
		hint("start it with an empty data directory and --join; nothing was changed")
}

func (a *app) removeMember() command {
	return command{
		use: "remove ID", short: "Remove a member from the cell", words: a.completeReplica(), endless: true,
		long: `Removes the member ID from the cell. Its process logs that and exits. Its
directory is not used again unless it is added again. A master first hands
mastership over.

The command shows the consequences and asks; --yes skips the question. The cell
refuses if too few other members are healthy. A change made with --force may not
be committed: its outcome is then unknown, and the cell may stop.`,
		exits: memberExits,
		flags: a.addForce,
		run: func(ctx context.Context, args []string) error {
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
				return a.admin.RemoveMember(ctx, id, lockapi.RemoveMemberRequest{Directory: latest(list, id), Force: a.opts.force})
			})
			return answer(a.ui, lockapi.MemberRemoved{ID: id, Removed: true}, err, func(lockapi.MemberRemoved) {
				a.ui.printf("%s is no longer a member\n", format.Clean(id))
			})
		},
	}
}

// mayLose returns the member that is to lose its vote. The only voter cannot
// lose it, even with --force.
func (a *app) mayLose(ctx context.Context, id string) (list lockapi.Members, m *lockapi.Member, err error) {
	if list, err = a.readMembers(ctx); err != nil {
		return list, nil, err
	}
	if m = present(list, id); m == nil {
		return list, nil, noMember(list, id)
	}
	if others, _ := votersBut(list, id); others == 0 && m.Suffrage == lockapi.SuffrageVoter {
		return list, nil, (&failure{code: exitFailed, message: fmt.Sprintf("%s is the only voter: the cell needs it", format.Clean(id))}).
			hint("first add another voter: stout member add, or stout member set ID --suffrage voter")
	}
	return list, m, nil
}

func noMember(list lockapi.Members, id string) *failure {
	return (&failure{code: exitFailed, message: fmt.Sprintf("the cell has no member %s", format.Clean(id))}).
		hint("its members are %s", strings.Join(names(list), ", "))
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
func (a *app) askToLose(list lockapi.Members, m *lockapi.Member, change [2]string, question string) error {
	voters, well := votersBut(list, m.ID)
	what := fmt.Sprintf("the cell will have %s: %d healthy and %d needed; it will tolerate %s",
		format.Plural(voters, "voter"), well, voters/2+1, moreFailures(max(0, well-voters/2-1)))
	if a.opts.yes {
		a.ui.note("%s", what)
		return nil
	}
	what = capital(what) + "."
	if a.opts.force {
		what += " With --force and too few healthy voters, the cell may stop, and the outcome stays unknown until they are back."
	}
	return a.confirm("the cell loses a vote", what, question, [2]string{"member", format.Clean(m.ID) + "  " + format.Clean(m.URL)}, change)
}

func (a *app) setMember() command {
	var raftAddr, url, suffrage string
	return command{
		use: "set ID", short: "Change a member's addresses, or whether it votes", words: a.completeReplica(), endless: true,
		long: `Changes the addresses of the member ID, or whether it votes. New addresses apply
at once and override the replicas' settings. A new voter votes when it has
caught up. Removing a vote is checked like a removal, and asks first; a master
first hands mastership over.`,
		exits: memberExits,
		example: `  stout member set r2 --raft-addr 10.0.0.9:7201 --url http://10.0.0.9:7101
  stout member set r5 --suffrage nonvoter --yes`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&raftAddr, "raft-addr", "", "`host:port` at which the other replicas reach it")
			f.StringVar(&url, "url", "", "base `URL` of its API")
			f.StringVar(&suffrage, "suffrage", "", "voter or nonvoter")
			a.addForce(f)
		},
		values: map[string]completer{"suffrage": fixed(lockapi.SuffrageVoter, lockapi.SuffrageNonvoter)},
		run: func(ctx context.Context, args []string) error {
			id, req := args[0], lockapi.SetMemberRequest{Force: a.opts.force}
			ifGiven := func(name string, value *string) *string {
				if !a.given(name) {
					return nil
				}
				return value
			}
			req.RaftAddr, req.URL, req.Suffrage = ifGiven("raft-addr", &raftAddr), ifGiven("url", &url), ifGiven("suffrage", &suffrage)
			if err := req.Validate(); err != nil {
				return usagef("%s", err.(*lockapi.Error).Detail)
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
				now, err = a.admin.SetMember(ctx, id, req)
				return err
			})
			return answer(a.ui, now, err, func(lockapi.Member) {
				later := ""
				if a.given("suffrage") && suffrage != now.Suffrage {
					later = "; it gets a vote when it has caught up"
				}
				a.ui.printf("%s is a %s at %s, %s%s\n", format.Clean(now.ID), format.Clean(now.Suffrage), format.Clean(now.RaftAddr), format.Clean(now.URL), later)
			})
		},
	}
}
