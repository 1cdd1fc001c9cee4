package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// replacement is what stout member replace was asked to do.
type replacement struct {
	id        string
	directory string // the new one; "" is the one that the replica has
	inPlaceOf string // the one that the member has, or was to have
	named     bool   // directory was given, not asked for
	yes       bool   // do not ask
	force     bool
	noWait    bool
}

type replaceMember struct {
	*app
	replacement
}

func (c *replaceMember) command() command {
	return command{
		use: "replace ID", short: "Put a new data directory in the place of one that is lost", words: c.completeReplica(), endless: true,
		long: `Puts the data directory that the replica ID has now in the place of the one
that it had as a member: its disk was lost, or wiped. The replica has to be
running; it waits for this. (Is its disk only not mounted? Then mount it, and
start it again.)

The new directory gets everything from the master. Once it has caught up it
votes in the place of the old one, which is out for good. stout waits for that,
and the cell goes on with it if stout is interrupted.

To take back what is not done yet, name the directory that has the place.

It says first what will be, and asks; --yes is for scripts. The cell refuses
where too few of its other members are well: repair them first.`,
		exits: changeExits("done (with --no-wait: begun)", "the cell refused or nobody said yes"),
		example: `  stout member replace r1
  stout member replace r1 --directory 5f0a81c2d3e4b697 --yes`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.directory, "directory", "", "`id` of the new directory (default: the replica is asked)")
			addYes(f, &c.yes)
			addForce(f, &c.force)
			f.BoolVar(&c.noWait, "no-wait", false, "do not wait until the new directory votes")
		},
	}
}

func (c *replaceMember) run(ctx context.Context, args []string) error {
	r := c.replacement
	r.id, r.named = args[0], c.given("directory")
	if r.named {
		if err := lockapi.ValidateDirectory(r.directory); err != nil {
			return usagef("--%s", err.(*lockapi.Error).Detail)
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
	r.inPlaceOf = latest(list, r.id)
	switch voter, next := places(list, r.id); {
	case voter != nil && voter.Directory == r.directory && next != nil:
		err = c.takeBack(ctx, r, *next)
	case voter != nil && voter.Directory == r.directory:
		c.ui.note("directory %s is that of member %s already: nothing to do", r.directory, clean(r.id))
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
		c.ui.note("begun; stout member list shows how far it is")
		return c.replaced(r, lockapi.Members{})
	}
	if list, err = c.awaitReplaced(ctx, r); err != nil {
		return err
	}
	return c.replaced(r, list)
}

func (a *app) readMembers(ctx context.Context) (lockapi.Members, error) {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	return a.client.Members(ctx)
}

// presentDirectory asks the replica with a member's name which directory it
// has.
func (a *app) presentDirectory(ctx context.Context, m *lockapi.Member) (string, error) {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	at := fmt.Sprintf("%s, at %s", clean(m.ID), clean(m.URL))
	var own lockapi.Replica
	err := a.mayCall(m.URL)
	if err == nil {
		own, err = a.client.Replica(ctx, m.URL)
	}
	switch {
	case err != nil:
		return "", (&failure{code: exitFailed, message: fmt.Sprintf("%s, cannot be asked for its directory: %s", at, reason(err, a.opts.timeout))}).
			hint("start it: it waits for this command; or name the directory that its log tells, with --directory")
	case own.ID != m.ID:
		return "", &failure{code: exitFailed, message: fmt.Sprintf("%s, is where replica %s answers", at, clean(own.ID))}
	case lockapi.ValidateDirectory(own.Directory) != nil:
		return "", &failure{code: exitFailed, message: fmt.Sprintf("%s, does not tell its directory", at)}
	}
	return own.Directory, nil
}

// takeBack has a directory that was to take the place of another forgotten.
// Whoever only repeats a command, before the replica has its new directory,
// does not mean that.
func (a *app) takeBack(ctx context.Context, r replacement, next lockapi.Member) error {
	if !r.named {
		return (&failure{code: exitFailed, message: fmt.Sprintf("%s runs with directory %s, which has the place; directory %s is to get it, and is not there yet",
			clean(r.id), r.directory, clean(next.Directory))}).
			hint("start %s with the new directory; or take it back: stout member replace %s --directory %s", clean(r.id), clean(r.id), r.directory)
	}
	if !r.yes {
		if err := a.ask(forGood, fmt.Sprintf("Directory %s keeps the place of %s, and %s, which was to get it, does not?", r.directory, clean(r.id), clean(next.Directory))); err != nil {
			return err
		}
	}
	return a.beginReplace(ctx, r)
}

const forGood = "to replace a directory is for good"

// confirmReplace says what will be, and asks.
func (a *app) confirmReplace(list lockapi.Members, old lockapi.Member, r replacement) error {
	if r.yes {
		if old.Healthy {
			a.ui.note("%s is well with directory %s, which is out for good once %s has caught up; to take it back until then: %s",
				clean(old.ID), clean(old.Directory), r.directory, replaceCommand(old.ID, old.Directory))
		}
		return nil
	}
	state := "not well"
	if old.Healthy {
		state = a.ui.err.warn.Render("WELL: is this what you mean?")
	}
	others, well := votersBut(list, old.ID)
	voters := others
	if old.Suffrage == lockapi.SuffrageVoter {
		voters++
	}
	return a.confirm(forGood, fmt.Sprintf("The old directory is out for good: what it holds is not used again, and should it turn up, it does nothing. "+
		"The new one gets everything from the master. Until it has caught up, the cell rests on the other %s: %d of them well, and %d needed.",
		plural(others, "member"), well, voters/2+1), "Replace it?",
		[2]string{"member", clean(old.ID) + "  " + clean(old.URL)},
		[2]string{"out", fmt.Sprintf("directory %s, %s", clean(old.Directory), state)},
		[2]string{"in", "directory " + r.directory},
	)
}

// replaceAgain is how long a refusal as busy is waited out before the next try:
// such a refusal is over when the other change is committed.
const replaceAgain = 200 * time.Millisecond

// beginReplace has the cell begin.
func (a *app) beginReplace(ctx context.Context, r replacement) error {
	return a.changeMember(ctx, "the replacement of "+clean(r.id)+" was begun", func(ctx context.Context) error {
		return a.client.ReplaceMember(ctx, r.id, lockapi.ReplaceMemberRequest{Directory: r.directory, InPlaceOf: r.inPlaceOf, Force: r.force})
	})
}

// changeMember has the cell begin a change of the members, and waits while another
// is under way. Done says in words what it is when it is done.
func (a *app) changeMember(ctx context.Context, done string, change func(context.Context) error) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	for {
		err := change(ctx)
		refused, _ := errors.AsType[*lockapi.Error](err)
		switch {
		case errors.Is(err, client.ErrBusy) && sleep(ctx, replaceAgain):
			continue
		case errors.Is(err, client.ErrOutcomeUnknown):
			f := &failure{code: exitUnknown, message: "it is not known whether " + done}
			if refused != nil {
				f.tell("%s", clean(refused.Detail))
			}
			return f.hint("stout member list shows whether it is done; it may still come about, with a majority of the members that vote")
		case errors.Is(err, client.ErrUnsafe):
			return (&failure{code: exitFailed, message: clean(refused.Detail)}).hint("stout member list shows who is well; --force goes on all the same")
		case errors.Is(err, client.ErrConflict), errors.Is(err, client.ErrNotFound), errors.Is(err, client.ErrBusy):
			return &failure{code: exitFailed, message: clean(refused.Detail)}
		}
		return err
	}
}

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// replaceLook is the time between two looks at how far a replacement is, and
// replacePatience for how long they may fail: a change of master is part of it.
const (
	replaceLook     = 500 * time.Millisecond
	replacePatience = time.Minute
	// replaceSilence is from when on it is told that nobody answers.
	replaceSilence = 5 * time.Second
	// replaceNews is how often it is told what the replica says of itself, while a
	// replacement waits for it.
	replaceNews = 10 * time.Second
)

// awaitReplaced waits until the new directory is the only one of its member,
// and votes.
func (a *app) awaitReplaced(ctx context.Context, r replacement) (lockapi.Members, error) {
	defer a.ui.progress("", "")
	kind, says, asked := "replace", "", time.Now()
	for seen := time.Now(); ; {
		list, err := a.readMembers(ctx)
		switch {
		case err == nil:
			seen = time.Now()
			done, how := progressOf(list, r)
			if done {
				return list, nil
			}
			if how == "" {
				return list, &failure{code: exitFailed, message: fmt.Sprintf("directory %s is not on its way to member %s any more", r.directory, clean(r.id))}
			}
			if now := time.Now(); now.Sub(asked) >= replaceNews {
				asked, says = now, a.saysItself(ctx, present(list, r.id))
				kind = fmt.Sprint("replace ", now.UnixNano()) // is told again
			}
			a.ui.progress(kind, fmt.Sprintf("%s: %s%s", r.id, how, says))
		case time.Since(seen) > replacePatience:
			return list, err
		case time.Since(seen) >= replaceSilence:
			a.ui.progress("replace silent", fmt.Sprintf("%s: the cell does not say how far it is: it has no master, or none that answers; asking for %s at most", clean(r.id), human(replacePatience)))
		}
		if !sleep(ctx, replaceLook) {
			return list, ctx.Err()
		}
	}
}

// saysItself is what a replica tells whether it is ready, as the end of a line;
// empty for no replica.
func (a *app) saysItself(ctx context.Context, m *lockapi.Member) string {
	if m == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := a.ready(ctx, m.URL)
	refused, answers := errors.AsType[*lockapi.Error](err)
	switch {
	case err == nil:
		return "; it says that it is ready"
	case answers:
		return "; it says: " + saying(refused)
	}
	return fmt.Sprintf("; it does not answer at %s (%s)", clean(m.URL), reason(err, probeTimeout))
}

// progressOf says how far a replacement is; how is empty where the cell knows
// of none.
func progressOf(list lockapi.Members, r replacement) (done bool, how string) {
	others := false
	for _, m := range list.Members {
		switch {
		case m.ID != r.id:
		case m.Directory != r.directory:
			others = true
		case m.Suffrage == lockapi.SuffrageVoter:
			done, how = true, "the new directory votes; the old one is about to go"
		case !m.Healthy:
			how = "the new directory is not heard of yet"
		default:
			how = fmt.Sprintf("the new directory is %s behind", pluralOf(m.Behind, "entry", "entries"))
		}
	}
	return done && !others, how
}

// replaced prints the outcome.
func (a *app) replaced(r replacement, list lockapi.Members) error {
	return answer(a.ui, lockapi.MemberChange{ID: r.id, Directory: r.directory}, nil, func(lockapi.MemberChange) {
		if len(list.Members) > 0 {
			a.ui.printf("%s votes with directory %s; the cell tolerates %s\n", clean(r.id), r.directory, a.tolerance(list))
		}
	})
}
