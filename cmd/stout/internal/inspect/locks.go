package inspect

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

type locks struct{ *app.App }

func (a *locks) listLocks() app.Command {
	return app.Command{
		Run: a.runLocks,
		Use: "locks [PREFIX]", Short: "List the locks that are held, waited for or delayed", SuggestFor: "list ps queue waiters", Complete: a.CompletePath(),
		Long: `Lists the locks with paths that begin with PREFIX, sorted by path, one line per
holder. Without PREFIX it lists all. If PREFIX is the full path of a lock, its
holders and its queue are shown below, with positions, priorities and waiting
times. A free lock without waiters is not listed.`,
		Exits: exit.Reads, Check: app.ValidPrefix, Unlimited: true,
		Example: `  stout locks
  stout locks /db/
  stout locks /db/migrate`,
		Flags: a.AddStale,
	}
}

func (a *locks) runLocks(ctx context.Context, args []string) error {
	prefix, opts := strings.Join(args, ""), a.ReadOptions()
	locks, err := app.CollectPages(ctx, a.App, func(ctx context.Context) iter.Seq2[lockapi.Lock, error] {
		return a.Client.ListLocks(ctx, prefix, opts...)
	})
	exact := slices.IndexFunc(locks, func(l lockapi.Lock) bool { return l.Path == prefix })
	if exact >= 0 {
		ctx, cancel := a.WithTimeout(ctx)
		defer cancel()
		locks[exact], err = a.Client.ReadLock(ctx, prefix, append(opts, client.Waiters(lockapi.MaxWaiters))...)
	}
	return ui.Answer(a.UI, lockapi.LockList{Locks: locks}, err, func(lockapi.LockList) {
		switch {
		case len(locks) > 0:
			a.UI.Table([]ui.Column{
				ui.Path(), ui.Left("STATE"), ui.Left("MODE"), ui.Right("WAITERS"),
				ui.Left("HOLDER"), ui.Left("SESSION").Drop(1), ui.Right("TOKEN"), ui.Right("HELD FOR"),
			}, a.lockRows(locks))
		case prefix == "":
			a.UI.Note("no lock%s is held or waited for", a.Collector().IfLimited(ctx, " that you may read"))
		default:
			a.UI.Note("no lock%s with prefix %s is held or waited for", a.Collector().IfLimited(ctx, " that you may read"), format.Clean(prefix))
		}
		if exact >= 0 {
			a.showHolders(locks[exact])
			a.showQueue(locks[exact])
		}
	})
}

// mostHolders limits the described holders of one lock.
const mostHolders = 10

func (a *locks) showHolders(l lockapi.Lock) {
	shown := l.Holders[:min(len(l.Holders), mostHolders)]
	for i, h := range shown {
		if i == 0 {
			a.UI.Printf("\n")
		}
		meta := ""
		if len(h.SessionMeta) > 0 {
			meta = ": " + metaText(h.SessionMeta)
		}
		a.UI.Indent(fmt.Sprintf("token %d is held by %s, session %s%s", h.Token, format.Clean(h.SessionName), format.Clean(h.Session), meta))
	}
	if more := len(l.Holders) - len(shown) + l.MoreHolders; more > 0 {
		a.UI.Printf("and %s more\n", format.Plural(more, "holder"))
	}
}

func (a *locks) showQueue(l lockapi.Lock) {
	if len(l.Queue) == 0 {
		return
	}
	a.UI.Printf("\n")
	a.UI.Table([]ui.Column{
		ui.Right("PLACE"), ui.Right("PRIORITY"), ui.Left("WAITING"), ui.Left("SESSION").Drop(2), ui.Left("MODE").Drop(1), ui.Right("FOR"), ui.Left("META").Drop(3),
	}, ui.Rows(l.Queue, func(w lockapi.Waiter) []string {
		return []string{
			fmt.Sprint(w.Position), fmt.Sprint(w.Priority), format.Clean(w.SessionName) + among(w.Set), format.Clean(w.Session), format.Clean(string(w.Mode)), format.MS(w.WaitingMS), metaText(w.SessionMeta),
		}
	}))
	if more := l.Waiters - len(l.Queue); more > 0 {
		a.UI.Printf("and %s more\n", format.Plural(more, "waiter"))
	}
}

// among describes a position that waits for several locks at once.
func among(locks int) string {
	if locks == 0 {
		return ""
	}
	return fmt.Sprintf(" (for %d locks at once)", locks)
}

func metaText(meta map[string]string) string {
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		pairs = append(pairs, format.Clean(k)+"="+format.Clean(meta[k]))
	}
	return strings.Join(pairs, "  ")
}

// lockRows returns one row per holder; the lock's own columns are on its first
// row.
func (a *locks) lockRows(locks []lockapi.Lock) [][]string {
	p := a.UI.Out
	var rows [][]string
	for _, l := range locks {
		state, mode, waiters := format.Clean(l.State), string(l.Mode), fmt.Sprint(l.Waiters)
		if l.DelayRemainingMS > 0 {
			state = p.Warn(fmt.Sprintf("%s, delay %s", format.Clean(l.State), format.MS(l.DelayRemainingMS)))
		}
		if l.Limit > 0 {
			mode = fmt.Sprintf("%s %d/%d", l.Mode, len(l.Holders)+l.MoreHolders, l.Limit)
		}
		if l.Waiters > 0 {
			waiters = p.Warn(waiters)
		}
		lock := []string{format.Clean(l.Path), state, format.Clean(mode), waiters}
		for _, h := range l.Holders {
			rows = append(rows, append(lock, format.Clean(h.SessionName), format.Clean(h.Session), fmt.Sprint(h.Token), format.Since(h.GrantedAt)))
			lock = []string{"", "", "", ""}
		}
		if len(l.Holders) == 0 {
			rows = append(rows, append(lock, "-", "-", "-", "-"))
		}
	}
	return rows
}

func (a *locks) checkSequencer() app.Command {
	return app.Command{
		Use: "check SEQUENCER", Short: "Check whether the hold that a sequencer describes is still valid", SuggestFor: "verify validate",
		Long: `Checks whether the hold that SEQUENCER describes is still valid. A sequencer has
the form mode:token:path. stout lock prints it and passes it to its command in
STOUT_SEQUENCER.`,
		Exits:   exit.ReadExits("valid", "not valid"),
		Example: `  stout check exclusive:42:/jobs/nightly && echo still ours`,
		Run: func(ctx context.Context, args []string) error {
			if _, err := lockapi.ParseSequencer(args[0]); err != nil {
				return exit.Usagef("%s", err.(*lockapi.Error).Detail).Hint("a sequencer looks like exclusive:42:/db/migrate")
			}
			got, err := a.Client.CheckSequencer(ctx, args[0])
			switch {
			case err != nil:
				return err
			case a.UI.Quiet:
			case a.UI.JSON:
				err = a.UI.Object(got)
			case got.Valid:
				a.UI.Printf("%s\n", a.UI.Out.OK("valid"))
			default:
				a.UI.Printf("%s: %s\n", a.UI.Out.Fail("not valid"), format.Clean(got.Reason))
			}
			if err == nil && !got.Valid {
				return &exit.Failure{Code: exit.Failed}
			}
			return err
		},
	}
}

type releaseLock struct {
	*app.App
	session string
	token   uint64
}

func (c *releaseLock) command() app.Command {
	return app.Command{
		Run: c.run,
		Use: "release PATH", Short: "Take a lock away from its holder", SuggestFor: "unlock free unhold", Complete: c.CompletePath(), Check: app.ValidPath,
		Long: `Releases the lock at PATH by force. If several sessions share it, choose one
with --token or --session. With --session it also removes that session from the
queue.

The holder may continue beside the next holder until it learns of this. stout
lock and programs with the Go client learn of it from the cell at once, if they
can reach it. Only fencing tokens keep the two apart. stout session kill ends
the whole session.`,
		Exits: exit.ChangeExits("released", "there was nothing to release, or it is not clear which hold"),
		Example: `  stout release /jobs/nightly
  stout release /pool/workers --token 4711`,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.session, "session", "", "`id` of the session that holds or waits")
			f.Uint64Var(&c.token, "token", 0, "fencing `token` of the hold to release")
		},
		CompleteFlags: map[string]app.Completer{"session": c.CompleteSession()},
	}
}

func (c *releaseLock) run(ctx context.Context, args []string) error {
	path := args[0]
	lock, err := c.Client.ReadLock(ctx, path)
	if err != nil {
		return err
	}
	found := slices.DeleteFunc(slices.Clone(lock.Holders), func(h lockapi.Holder) bool {
		return c.session != "" && c.session != h.Session || c.token != 0 && c.token != h.Token
	})
	switch {
	case len(found) == 1:
		h := found[0]
		from := fmt.Sprintf("from %s (session %s, token %d)", format.Clean(h.SessionName), format.Clean(h.Session), h.Token)
		return c.releaseOne(ctx, path, h.Session, h.Handle, h.Token, from)
	case len(found) > 1:
		f := exit.Errorf(exit.Failed, "%s has %d holders; choose one with --token", format.Clean(path), len(found))
		for _, h := range found {
			f.Detail("--token %d  %s, session %s, for %s", h.Token, format.Clean(h.SessionName), format.Clean(h.Session), format.Since(h.GrantedAt))
		}
		return f
	case c.session != "" && c.token == 0:
		return c.leaveQueue(ctx, path)
	case len(lock.Holders) == 0:
		return c.nothing(path, "it is not held")
	case lock.MoreHolders > 0:
		return c.nothing(path, fmt.Sprintf("none of its first %d holders matches, and the cell does not list the other %d", len(lock.Holders), lock.MoreHolders))
	}
	return c.nothing(path, "none of its holders matches")
}

func (c *releaseLock) leaveQueue(ctx context.Context, path string) error {
	s, err := c.Admin.ReadSession(ctx, c.session)
	if err != nil {
		return err
	}
	for _, w := range s.Waits {
		if w.Path == path {
			return c.releaseOne(ctx, path, s.ID, w.Handle, 0, "from the queue position of "+format.Clean(s.Name))
		}
	}
	return c.nothing(path, "the session neither holds it nor waits for it")
}

// releaseOne releases the hold with a token, or a queue position, which has none.
func (c *releaseLock) releaseOne(ctx context.Context, path, session, handle string, token uint64, whose string) error {
	released, err := c.Admin.Release(ctx, path, session, handle, token)
	if err != nil {
		return err
	}
	if !released {
		return c.nothing(path, "it was released at the same moment")
	}
	if c.UI.JSON {
		err = c.UI.Object(lockapi.Released{Released: true})
	} else {
		c.UI.Printf("released %s %s\n", format.Clean(path), whose)
	}
	if token != 0 {
		c.UI.Note("the former holder may still be running; only a resource that checks tokens refuses its writes")
	}
	return err
}

// nothing returns the error of a release without effect.
func (c *releaseLock) nothing(path, why string) error {
	f := exit.Errorf(exit.Failed, "nothing to release at %s: %s", format.Clean(path), why)
	if c.UI.JSON {
		if err := c.UI.Object(lockapi.Released{}); err != nil {
			return err
		}
	}
	return f.Hint("stout locks %s shows its holders", format.Clean(path))
}
