package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/survey"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

type replacement struct {
	id        string
	directory string // the new one; "" for the replica's own
	inPlaceOf string // the member's current or pending directory
	named     bool   // directory was given, not read from the replica
	unvoting  bool   // the member has no vote, and may stay so
	noWait    bool
}

type replaceMember struct {
	*members
	replacement
}

func (c *replaceMember) command() app.Command {
	return app.Command{
		Run: c.run,
		Use: "replace ID", Short: "Replace a member's lost data directory", Complete: c.CompleteReplica(), Unlimited: true,
		Long: `Replaces the data directory of the member ID by the one that its replica has
now, after its disk was lost or wiped. The replica must be running; it waits for
this. (If its disk is only not mounted, mount it and restart the replica
instead.)

The master sends its state to the new directory. When that has caught up, it
gets the vote of the old directory, which is then excluded permanently. The
directory of a member without a vote is excluded at once. stout waits until the
new one has caught up; if stout is interrupted, the cell continues with the
replacement.

To cancel an unfinished replacement, name the current directory with
--directory.

The command shows the consequences and asks; --yes skips the question. The cell
refuses if too few other members are healthy: repair them first.`,
		Exits: exit.ChangeExits("done (with --no-wait: started)", "the cell refused, or the answer was no"),
		Example: `  stout member replace r1
  stout member replace r1 --directory 5f0a81c2d3e4b697 --yes`,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.directory, "directory", "", "`id` of the new directory (default: ask the replica)")
			c.AddForce(f)
			f.BoolVar(&c.noWait, "no-wait", false, "do not wait until the new directory has caught up")
		},
	}
}

func (c *replaceMember) run(ctx context.Context, args []string) error {
	r := c.replacement
	r.id, r.named = args[0], c.Given("directory")
	if r.named {
		if err := lockapi.ValidateDirectory(r.directory); err != nil {
			return exit.Usagef("--%s", err.(*lockapi.Error).Detail)
		}
	}
	list, err := c.readMembers(ctx)
	if err != nil {
		return err
	}
	old := present(list, r.id)
	if old == nil {
		return noMember(list, r.id)
	}
	if r.directory == "" {
		if r.directory, err = c.presentDirectory(ctx, old); err != nil {
			return err
		}
	}
	r.inPlaceOf, r.unvoting = latest(list, r.id), old.Suffrage != lockapi.SuffrageVoter
	switch voter, next := places(list, r.id); {
	case voter != nil && voter.Directory == r.directory && next != nil:
		err = c.cancel(ctx, r, *next)
	case voter != nil && voter.Directory == r.directory:
		c.UI.Note("directory %s already belongs to member %s: nothing to do", r.directory, format.Clean(r.id))
		return c.replaced(r, list)
	case next != nil && next.Directory == r.directory: // begun before
	default:
		if err = c.confirmReplace(list, *old, r); err == nil {
			err = c.beginReplace(ctx, r)
		}
	}
	switch {
	case err != nil:
		return err
	case r.noWait:
		c.UI.Note("started; stout member list shows the progress")
		return c.replaced(r, lockapi.Members{})
	}
	if list, err = c.awaitReplaced(ctx, r); err != nil {
		return err
	}
	return c.replaced(r, list)
}

func (a *members) readMembers(ctx context.Context) (lockapi.Members, error) {
	ctx, cancel := a.WithTimeout(ctx)
	defer cancel()
	return a.Admin.Members(ctx)
}

func (c *replaceMember) presentDirectory(ctx context.Context, m *lockapi.Member) (string, error) {
	ctx, cancel := c.WithTimeout(ctx)
	defer cancel()
	at := fmt.Sprintf("%s, at %s", format.Clean(m.ID), format.Clean(m.URL))
	var own lockapi.Replica
	err := c.Collector().MayCall(m.URL)
	if err == nil {
		own, err = c.Admin.Replica(ctx, m.URL)
	}
	switch {
	case err != nil:
		return "", exit.Errorf(exit.Failed, "%s: cannot read its directory: %s", at, survey.Reason(err, c.Options.Timeout)).
			Hint("start it, and repeat this command; or name the directory from its log with --directory")
	case own.ID != m.ID:
		return "", exit.Errorf(exit.Failed, "%s: replica %s answers there", at, format.Clean(own.ID))
	case lockapi.ValidateDirectory(own.Directory) != nil:
		return "", exit.Errorf(exit.Failed, "%s: the replica does not report its directory", at)
	}
	return own.Directory, nil
}

// cancel ends a replacement. Without an explicit directory it refuses: the
// caller may only have repeated a command before the replica got its new
// directory.
func (c *replaceMember) cancel(ctx context.Context, r replacement, next lockapi.Member) error {
	if !r.named {
		return exit.Errorf(exit.Failed, "%s still runs with its current directory %s; the pending directory %s is not there yet",
			format.Clean(r.id), r.directory, format.Clean(next.Directory)).
			Hint("start %s with the new directory; or cancel: stout member replace %s --directory %s", format.Clean(r.id), format.Clean(r.id), r.directory)
	}
	if !c.Options.Yes {
		if err := c.Ask(permanent, fmt.Sprintf("Keep directory %s for %s and drop the pending directory %s?", r.directory, format.Clean(r.id), format.Clean(next.Directory))); err != nil {
			return err
		}
	}
	return c.beginReplace(ctx, r)
}

const permanent = "replacing a directory is permanent"

func (c *replaceMember) confirmReplace(list lockapi.Members, old lockapi.Member, r replacement) error {
	if c.Options.Yes {
		switch {
		case old.Healthy && r.unvoting:
			c.UI.Note("%s is healthy with directory %s, which is excluded permanently now", format.Clean(old.ID), format.Clean(old.Directory))
		case old.Healthy:
			c.UI.Note("%s is healthy with directory %s, which is excluded permanently when %s has caught up; to cancel before that: %s",
				format.Clean(old.ID), format.Clean(old.Directory), r.directory, survey.ReplaceCommand(old.ID, old.Directory))
		}
		return nil
	}
	state := "unhealthy"
	if old.Healthy {
		state = c.UI.Err.Warn("HEALTHY: do you really mean this one?")
	}
	others, well := votersBut(list, old.ID)
	voters := others
	if old.Suffrage == lockapi.SuffrageVoter {
		voters++
	}
	return c.AskAfter(permanent, fmt.Sprintf("The old directory is excluded permanently: its data is not used again, even if it comes back. "+
		"The master sends its state to the new one. Until that has caught up, the cell relies on the other %s: %d healthy and %d needed.",
		format.Plural(others, "member"), well, voters/2+1), "Replace it?",
		[2]string{"member", format.Clean(old.ID) + "  " + format.Clean(old.URL)},
		[2]string{"out", fmt.Sprintf("directory %s, %s", format.Clean(old.Directory), state)},
		[2]string{"in", "directory " + r.directory},
	)
}

// replaceAgain is the pause after a busy error, which ends when the other
// change is committed.
const replaceAgain = 200 * time.Millisecond

func (c *replaceMember) beginReplace(ctx context.Context, r replacement) error {
	return c.changeMember(ctx, "the replacement of "+format.Clean(r.id)+" was started", func(ctx context.Context) error {
		return c.Admin.ReplaceMember(ctx, r.id, lockapi.ReplaceMemberRequest{Directory: r.directory, InPlaceOf: r.inPlaceOf, Force: c.Options.Force})
	})
}

// changeMember starts a change of the members, and waits while another change
// is under way. done describes the finished change.
func (a *members) changeMember(ctx context.Context, done string, change func(context.Context) error) error {
	ctx, cancel := a.WithTimeout(ctx)
	defer cancel()
	for {
		err := change(ctx)
		refused, _ := errors.AsType[*lockapi.Error](err)
		switch {
		case errors.Is(err, admin.ErrBusy) && ask.Sleep(ctx, replaceAgain) == nil:
			continue
		case errors.Is(err, client.ErrOutcomeUnknown):
			f := exit.Errorf(exit.Unknown, "it is not known whether %s", done)
			if refused != nil {
				f.Detail("%s", format.Clean(refused.Detail))
			}
			return f.Hint("stout member list shows whether it is done; it may still be committed later by a majority of the voters")
		case errors.Is(err, admin.ErrUnsafe):
			return exit.Errorf(exit.Failed, "%s", format.Clean(refused.Detail)).Hint("stout member list shows the members' health; --force continues anyway")
		case errors.Is(err, client.ErrConflict), errors.Is(err, client.ErrNotFound), errors.Is(err, admin.ErrBusy):
			return exit.Errorf(exit.Failed, "%s", format.Clean(refused.Detail))
		}
		return err
	}
}

// replaceLook is the time between two looks at the progress, and
// replacePatience how long they may fail: a change of master is part of a
// replacement.
const (
	replaceLook     = 500 * time.Millisecond
	replacePatience = time.Minute
	// replaceSilence is the time after which missing answers are reported.
	replaceSilence = 5 * time.Second
	// replaceNews is the time between two reports of the waiting replica's own
	// status.
	replaceNews = 10 * time.Second
)

// awaitReplaced waits until the new directory is the only one of its member and
// has a vote, or has caught up if the member had none.
func (c *replaceMember) awaitReplaced(ctx context.Context, r replacement) (lockapi.Members, error) {
	defer c.UI.Progress("", "")
	kind, status, asked := "replace", "", time.Now()
	for seen := time.Now(); ; {
		list, err := c.readMembers(ctx)
		switch {
		case err == nil:
			seen = time.Now()
			done, how := progressOf(list, r)
			if done {
				return list, nil
			}
			if how == "" {
				return list, exit.Errorf(exit.Failed, "the replacement by directory %s for member %s was canceled", r.directory, format.Clean(r.id))
			}
			if now := time.Now(); now.Sub(asked) >= replaceNews {
				asked, status = now, c.ownStatus(ctx, present(list, r.id))
				kind = fmt.Sprint("replace ", now.UnixNano()) // so that it is printed again
			}
			c.UI.Progress(kind, fmt.Sprintf("%s: %s%s", r.id, how, status))
		case time.Since(seen) > replacePatience:
			return list, err
		case time.Since(seen) >= replaceSilence:
			c.UI.Progress("replace silent", fmt.Sprintf("%s: progress unknown: no master answers; trying for at most %s", format.Clean(r.id), format.Human(replacePatience)))
		}
		if ask.Sleep(ctx, replaceLook) != nil {
			return list, ctx.Err()
		}
	}
}

// ownStatus returns a replica's own status, as the end of a line; empty for no
// replica.
func (c *replaceMember) ownStatus(ctx context.Context, m *lockapi.Member) string {
	if m == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, survey.ProbeTimeout)
	defer cancel()
	err := c.Collector().Ready(ctx, m.URL)
	refused, answers := errors.AsType[*lockapi.Error](err)
	switch {
	case err == nil:
		return "; it is ready"
	case answers:
		return "; it reports: " + survey.OwnReason(refused)
	}
	return fmt.Sprintf("; it does not answer at %s (%s)", format.Clean(m.URL), survey.Reason(err, survey.ProbeTimeout))
}

// caughtUp is how many entries a replica that has caught up may be behind, as
// others are still being written.
const caughtUp = 256

// progressOf describes the progress of a replacement; how is empty if the cell
// has none.
func progressOf(list lockapi.Members, r replacement) (done bool, how string) {
	others := false
	for _, m := range list.Members {
		switch {
		case m.ID != r.id:
		case m.Directory != r.directory:
			others = true
		case m.Suffrage == lockapi.SuffrageVoter:
			done, how = true, "the new directory has the vote; removing the old one"
		case !m.Healthy:
			how = "the new directory does not answer yet"
		case r.unvoting && m.Behind <= caughtUp:
			done, how = true, "the new directory has caught up; removing the old one"
		default:
			how = fmt.Sprintf("the new directory is %s behind", format.PluralOf(m.Behind, "entry", "entries"))
		}
	}
	return done && !others, how
}

func (c *replaceMember) replaced(r replacement, list lockapi.Members) error {
	return ui.Answer(c.UI, lockapi.MemberChange{ID: r.id, Directory: r.directory}, nil, func(lockapi.MemberChange) {
		if len(list.Members) == 0 {
			return
		}
		has := "has a vote"
		if voter, _ := places(list, r.id); voter == nil {
			has = "is a member without a vote"
		}
		c.UI.Printf("%s %s with directory %s; the cell tolerates %s\n", format.Clean(r.id), has, r.directory, Tolerates(c.UI, list))
	})
}
