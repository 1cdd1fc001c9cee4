package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/lockapi"
)

var memberExits = changeExits("done", "the cell refused, or the answer was no")

type addMember struct {
	*app
	req      lockapi.AddMemberRequest
	nonvoter bool
}

func (c *addMember) command() command {
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
			f.StringVar(&c.req.Directory, "directory", "", "`id` of its data directory")
			f.StringVar(&c.req.RaftAddr, "raft-addr", "", "`host:port` at which the other replicas reach it")
			f.StringVar(&c.req.URL, "url", "", "base `URL` of its API")
			f.BoolVar(&c.nonvoter, "nonvoter", false, "add it without a vote, for stale reads and events")
		},
	}
}

func (c *addMember) run(ctx context.Context, args []string) error {
	req := c.req
	if req.ID = args[0]; c.nonvoter {
		req.Suffrage = lockapi.SuffrageNonvoter
	}
	if err := req.Validate(); err != nil {
		return usagef("%s", err.(*lockapi.Error).Detail)
	}
	err := c.notAnothers(ctx, req)
	if err == nil {
		err = c.changeMember(ctx, clean(req.ID)+" was added", func(ctx context.Context) error { return c.client.AddMember(ctx, req) })
	}
	return answer(c.ui, lockapi.MemberChange{ID: req.ID, Directory: req.Directory}, err, func(lockapi.MemberChange) {
		c.ui.printf("%s is a member without a vote%s\n", req.ID, map[bool]string{false: " until it has caught up"}[c.nonvoter])
	})
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
	return (&failure{code: exitFailed, message: fmt.Sprintf("the replica at %s belongs to another cell, with id %s; this cell has id %s", clean(req.URL), clean(is), clean(list.CellID))}).
		hint("start it with an empty data directory and --join; nothing was changed")
}

type removeMember struct {
	*app
	yes, force bool
}

func (c *removeMember) command() command {
	return command{
		use: "remove ID", short: "Remove a member from the cell", words: c.completeReplica(), endless: true,
		long: `Removes the member ID from the cell. Its process logs that and exits. Its
directory is not used again unless it is added again. A master first hands
mastership over.

The command shows the consequences and asks; --yes skips the question. The cell
refuses if too few other members are healthy. A change made with --force may not
be committed: its outcome is then unknown, and the cell may stop.`,
		exits: memberExits,
		flags: func(f *pflag.FlagSet) {
			addYes(f, &c.yes)
			addForce(f, &c.force)
		},
	}
}

func addForce(flags *pflag.FlagSet, force *bool) {
	flags.BoolVar(force, "force", false, "continue even if too few other members are healthy")
}

// Reasons to ask before the cell loses a vote.
const (
	toRemove = "the cell loses a vote"
	toDemote = "the cell loses a vote"
)

func (c *removeMember) run(ctx context.Context, args []string) error {
	id := args[0]
	list, m, err := c.mayLose(ctx, id)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("directory %s, %s, a %s", clean(m.Directory), wellness(m), clean(m.Suffrage))
	if err := c.askToLose(list, m, c.yes, c.force, toRemove, [2]string{"out", what}, "Remove it?"); err != nil {
		return err
	}
	err = c.changeMember(ctx, clean(id)+" was removed", func(ctx context.Context) error {
		return c.client.RemoveMember(ctx, id, lockapi.RemoveMemberRequest{Directory: latest(list, id), Force: c.force})
	})
	return answer(c.ui, lockapi.MemberRemoved{ID: id, Removed: true}, err, func(lockapi.MemberRemoved) {
		c.ui.printf("%s is no longer a member\n", clean(id))
	})
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
		return list, nil, (&failure{code: exitFailed, message: fmt.Sprintf("%s is the only voter: the cell needs it", clean(id))}).
			hint("first add another voter: stout member add, or stout member set ID --suffrage voter")
	}
	return list, m, nil
}

func noMember(list lockapi.Members, id string) *failure {
	return (&failure{code: exitFailed, message: fmt.Sprintf("the cell has no member %s", clean(id))}).
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

// askToLose describes the cell without a member's vote, and asks unless yes is
// set.
func (a *app) askToLose(list lockapi.Members, m *lockapi.Member, yes, force bool, toDo string, change [2]string, question string) error {
	voters, well := votersBut(list, m.ID)
	what := fmt.Sprintf("the cell will have %s: %d healthy and %d needed; it will tolerate %s",
		plural(voters, "voter"), well, voters/2+1, moreFailures(max(0, well-voters/2-1)))
	if yes {
		a.ui.note("%s", what)
		return nil
	}
	what = capital(what) + "."
	if force {
		what += " With --force and too few healthy voters, the cell may stop, and the outcome stays unknown until they are back."
	}
	return a.confirm(toDo, what, question, [2]string{"member", clean(m.ID) + "  " + clean(m.URL)}, change)
}

type setMember struct {
	*app
	raftAddr, url, suffrage string
	yes, force              bool
}

func (c *setMember) command() command {
	return command{
		use: "set ID", short: "Change a member's addresses, or whether it votes", words: c.completeReplica(), endless: true,
		long: `Changes the addresses of the member ID, or whether it votes. New addresses apply
at once and override the replicas' settings. A new voter votes when it has
caught up. Removing a vote is checked like a removal, and asks first; a master
first hands mastership over.`,
		exits: memberExits,
		example: `  stout member set r2 --raft-addr 10.0.0.9:7201 --url http://10.0.0.9:7101
  stout member set r5 --suffrage nonvoter --yes`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.raftAddr, "raft-addr", "", "`host:port` at which the other replicas reach it")
			f.StringVar(&c.url, "url", "", "base `URL` of its API")
			f.StringVar(&c.suffrage, "suffrage", "", "voter or nonvoter")
			addYes(f, &c.yes)
			addForce(f, &c.force)
		},
		values: map[string]completer{"suffrage": fixed(lockapi.SuffrageVoter, lockapi.SuffrageNonvoter)},
	}
}

func (c *setMember) run(ctx context.Context, args []string) error {
	id, req := args[0], lockapi.SetMemberRequest{Force: c.force}
	ifGiven := func(name string, value *string) *string {
		if !c.given(name) {
			return nil
		}
		return value
	}
	req.RaftAddr, req.URL, req.Suffrage = ifGiven("raft-addr", &c.raftAddr), ifGiven("url", &c.url), ifGiven("suffrage", &c.suffrage)
	if err := req.Validate(); err != nil {
		return usagef("%s", err.(*lockapi.Error).Detail)
	}
	if c.suffrage == lockapi.SuffrageNonvoter {
		list, m, err := c.mayLose(ctx, id)
		if err == nil && m.Suffrage == lockapi.SuffrageVoter {
			change := [2]string{"vote", fmt.Sprintf("removed; the member is %s and stays without a vote", wellness(m))}
			err = c.askToLose(list, m, c.yes, c.force, toDemote, change, "Remove its vote?")
		}
		if err != nil {
			return err
		}
	}
	var now lockapi.Member
	err := c.changeMember(ctx, clean(id)+" was changed", func(ctx context.Context) (err error) {
		now, err = c.client.SetMember(ctx, id, req)
		return err
	})
	return answer(c.ui, now, err, func(lockapi.Member) {
		later := ""
		if c.given("suffrage") && c.suffrage != now.Suffrage {
			later = "; it gets a vote when it has caught up"
		}
		c.ui.printf("%s is a %s at %s, %s%s\n", clean(now.ID), clean(now.Suffrage), clean(now.RaftAddr), clean(now.URL), later)
	})
}
