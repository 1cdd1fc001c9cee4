package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/lockapi"
)

const memberExits = `
Exit codes: 0 done, 1 the cell refused or nobody said yes, 2 wrong usage, 3 the
cell has no master, 4 no replica can be reached, 6 it is not known whether it is
done.`

func (a *app) addMemberCommand() *cobra.Command {
	var req lockapi.AddMemberRequest
	var nonvoter bool
	cmd := &cobra.Command{
		Use:   "add ID",
		Short: "Have a replica become a member",
		Long: `Has the replica ID, which was started with --join and waits for this, become a
member of the cell. Its log and its /readyz tell this command with all that it
needs. The cell gives it everything, and a vote once it has caught up; stout
member list shows how far it is.
` + memberExits,
		Example: `  stout member add r4 --directory 5f0a81c2d3e4b697 \
    --raft-addr 10.0.0.4:7201 --url http://10.0.0.4:7101`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if req.ID = args[0]; nonvoter {
				req.Suffrage = lockapi.SuffrageNonvoter
			}
			if err := req.Validate(); err != nil {
				return usagef("%s", err.(*lockapi.Error).Detail)
			}
			if err := a.notAnothers(cmd.Context(), req); err != nil {
				return err
			}
			if err := a.changeMember(cmd.Context(), clean(req.ID)+" was added", func(ctx context.Context) error { return a.client.AddMember(ctx, req) }); err != nil {
				return err
			}
			if a.ui.json {
				return a.ui.object(lockapi.MemberChange{ID: req.ID, Directory: req.Directory})
			}
			a.ui.printf("%s is a member, without a vote", req.ID)
			if !nonvoter {
				a.ui.printf(" until it has caught up")
			}
			a.ui.printf("\n")
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Directory, "directory", "", "`id` of its data directory")
	flags.StringVar(&req.RaftAddr, "raft-addr", "", "`host:port` at which the other replicas reach it")
	flags.StringVar(&req.URL, "url", "", "base `URL` of its API")
	flags.BoolVar(&nonvoter, "nonvoter", false, "it stays without a vote, for stale reads and events")
	for _, name := range []string{"directory", "raft-addr", "url"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

// notAnothers refuses a replica that says that it is a member of another cell: it does
// nothing in this one, though it may be of the same name.
func (a *app) notAnothers(ctx context.Context, req lockapi.AddMemberRequest) error {
	asked, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	is := a.cellIDAt(asked, req.URL)
	if is == "" {
		return nil
	}
	list, err := a.listMembers(ctx)
	if err != nil || list.CellID == "" || list.CellID == is { // what is wrong the change tells
		return nil
	}
	return (&failure{code: exitFailed, message: fmt.Sprintf("the replica at %s is of another cell, with id %s; this one has id %s", clean(req.URL), clean(is), clean(list.CellID))}).
		hint("start it with an empty data directory and --join; nothing was changed")
}

func (a *app) removeMemberCommand() *cobra.Command {
	var yes, force bool
	cmd := &cobra.Command{
		Use:   "remove ID",
		Short: "Take a member out of the cell",
		Long: `Takes the member ID out of the cell. Its process says so, and ends. What its
directory holds is not used again, unless it is added again. The master hands
over before it is removed.

It says first what will be, and asks; --yes is for scripts. The cell refuses
where too few of its other members are well. What --force has it do all the same
may not be committed: its outcome is unknown then, and the cell may stand still.
` + memberExits,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeReplica,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.removeMember(cmd.Context(), args[0], yes, force)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&force, "force", false, "also where too few of the other members are well")
	return cmd
}

// What a question is about that costs the cell a vote.
const (
	toRemove = "a removal takes a vote from the cell"
	toDemote = "to have no vote any more takes it from the cell"
)

func (a *app) removeMember(ctx context.Context, id string, yes, force bool) error {
	list, m, err := a.mayLose(ctx, id)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("directory %s, %s, a %s", clean(m.Directory), wellness(m), clean(m.Suffrage))
	if err := a.askToLose(list, m, yes, force, toRemove, [2]string{"out", what}, "Remove it?"); err != nil {
		return err
	}
	if err := a.changeMember(ctx, clean(id)+" was removed", func(ctx context.Context) error {
		return a.client.RemoveMember(ctx, id, lockapi.RemoveMemberRequest{Directory: latest(list, id), Force: force})
	}); err != nil {
		return err
	}
	if a.ui.json {
		return a.ui.object(lockapi.MemberRemoved{ID: id, Removed: true})
	}
	a.ui.printf("%s is no member any more\n", clean(id))
	return nil
}

// mayLose finds the member whose vote is to go. That of the only one that votes
// can't, whatever else is asked for.
func (a *app) mayLose(ctx context.Context, id string) (list lockapi.Members, m *lockapi.Member, err error) {
	if list, err = a.listMembers(ctx); err != nil {
		return list, nil, err
	}
	if m = present(list, id); m == nil {
		return list, nil, (&failure{code: exitFailed, message: fmt.Sprintf("the cell has no member %s", clean(id))}).
			hint("it has %s", strings.Join(names(list), ", "))
	}
	if others, _ := votersBut(list, id); others == 0 && m.Suffrage == lockapi.SuffrageVoter {
		return list, nil, (&failure{code: exitFailed, message: fmt.Sprintf("%s is the only member that votes: without it there is no cell", clean(id))}).
			hint("have another one vote first: stout member add, or stout member set ID --suffrage voter")
	}
	return list, m, nil
}

// votersBut are the members that vote, without one, and how many of them are well.
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
		return "well"
	}
	return "not well"
}

// askToLose says what the cell will be without a member's vote, and asks unless
// the answer is yes.
func (a *app) askToLose(list lockapi.Members, m *lockapi.Member, yes, force bool, toDo string, change [2]string, question string) error {
	voters, well := votersBut(list, m.ID)
	what := fmt.Sprintf("the cell goes on with %s that vote: %d of them well, and %d needed; it then tolerates %s",
		plural(voters, "member"), well, voters/2+1, moreFailures(max(0, well-voters/2-1)))
	if yes {
		a.ui.note("%s", what)
		return nil
	}
	if err := a.someoneToAsk(toDo); err != nil {
		return err
	}
	u := *a.ui
	u.out = a.ui.err // a question is no answer
	u.pairs([2]string{"member", clean(m.ID) + "  " + clean(m.URL)}, change)
	u.printf("\n")
	what = capital(what) + "."
	if force {
		what += " Forced where fewer are well, it may stand still, and whether this comes about is unknown until they are back."
	}
	u.paragraph("", what)
	u.printf("\n")
	return a.ask(toDo, question)
}

func (a *app) setMemberCommand() *cobra.Command {
	var raftAddr, url, suffrage string
	var yes, force bool
	cmd := &cobra.Command{
		Use:   "set ID",
		Short: "Change a member's addresses, or whether it votes",
		Long: `Changes where the member ID is reached, or whether it votes. The addresses count
from now on, whatever the settings of replicas say. One that is to vote does so
once it has caught up. To take a vote is judged as a removal is, and asks first;
the master hands over before.
` + memberExits,
		Example: `  stout member set r2 --raft-addr 10.0.0.9:7201 --url http://10.0.0.9:7101
  stout member set r5 --suffrage nonvoter --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeReplica,
		RunE: func(cmd *cobra.Command, args []string) error {
			req := lockapi.SetMemberRequest{Force: force}
			for name, to := range map[string]struct {
				value *string
				field **string
			}{"raft-addr": {&raftAddr, &req.RaftAddr}, "url": {&url, &req.URL}, "suffrage": {&suffrage, &req.Suffrage}} {
				if cmd.Flags().Changed(name) {
					*to.field = to.value
				}
			}
			if err := req.Validate(); err != nil {
				return usagef("%s", err.(*lockapi.Error).Detail)
			}
			return a.setMember(cmd.Context(), args[0], req, yes)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&raftAddr, "raft-addr", "", "`host:port` at which the other replicas reach it")
	flags.StringVar(&url, "url", "", "base `URL` of its API")
	flags.StringVar(&suffrage, "suffrage", "", "voter or nonvoter")
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&force, "force", false, "also where too few of the other members are well")
	for _, name := range []string{"raft-addr", "url"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	_ = cmd.RegisterFlagCompletionFunc("suffrage", cobra.FixedCompletions([]string{lockapi.SuffrageVoter, lockapi.SuffrageNonvoter}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) setMember(ctx context.Context, id string, req lockapi.SetMemberRequest, yes bool) error {
	if req.Suffrage != nil && *req.Suffrage == lockapi.SuffrageNonvoter {
		list, m, err := a.mayLose(ctx, id)
		if err != nil {
			return err
		}
		if m.Suffrage == lockapi.SuffrageVoter {
			change := [2]string{"vote", fmt.Sprintf("none any more; it is %s, and goes on without", wellness(m))}
			if err := a.askToLose(list, m, yes, req.Force, toDemote, change, "Take its vote?"); err != nil {
				return err
			}
		}
	}
	var now lockapi.Member
	err := a.changeMember(ctx, clean(id)+" was changed", func(ctx context.Context) (err error) {
		now, err = a.client.SetMember(ctx, id, req)
		return err
	})
	if err != nil {
		return err
	}
	if a.ui.json {
		return a.ui.object(now)
	}
	a.ui.printf("%s is a %s at %s, %s", clean(now.ID), clean(now.Suffrage), clean(now.RaftAddr), clean(now.URL))
	if req.Suffrage != nil && *req.Suffrage != now.Suffrage {
		a.ui.printf("; it gets a vote once it has caught up")
	}
	a.ui.printf("\n")
	return nil
}
