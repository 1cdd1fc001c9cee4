package cli

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) listLocks() command {
	return command{
		run: a.runLocks,
		use: "locks [PREFIX]", short: "List the locks that are held, waited for or delayed", like: "list ps queue waiters", words: a.completePath(),
		long: `Lists the locks with paths that begin with PREFIX, sorted by path, one line per
holder. Without PREFIX it lists all. If PREFIX is the full path of a lock, its
holders and its queue are shown below, with positions, priorities and waiting
times. A free lock without waiters is not listed.`,
		exits: reads, check: validPrefix,
		example: `  stout locks
  stout locks /db/
  stout locks /db/migrate`,
		flags: a.addStale,
	}
}

func (a *app) runLocks(ctx context.Context, args []string) error {
	prefix, opts := strings.Join(args, ""), a.readOptions()
	locks, err := collect(a.client.ListLocks(ctx, prefix, opts...))
	exact := slices.IndexFunc(locks, func(l lockapi.Lock) bool { return l.Path == prefix })
	if exact >= 0 {
		locks[exact], err = a.client.ReadLock(ctx, prefix, append(opts, client.Waiters(lockapi.MaxWaiters))...)
	}
	return answer(a.ui, lockapi.LockList{Locks: locks}, err, func(lockapi.LockList) {
		switch {
		case len(locks) > 0:
			a.ui.table([]column{
				pathColumn(), left("STATE"), left("MODE"), right("WAITERS"),
				left("HOLDER"), left("SESSION").sparing(1), right("TOKEN"), right("HELD FOR"),
			}, a.lockRows(locks))
		case prefix == "":
			a.ui.note("no lock%s is held or waited for", a.thatMayBeRead(ctx, " that you may read"))
		default:
			a.ui.note("no lock%s with prefix %s is held or waited for", a.thatMayBeRead(ctx, " that you may read"), format.Clean(prefix))
		}
		if exact >= 0 {
			a.showHolders(locks[exact])
			a.showQueue(locks[exact])
		}
	})
}

// mostHolders limits the described holders of one lock.
const mostHolders = 10

// showHolders describes the holders of a lock, beyond the table.
func (a *app) showHolders(l lockapi.Lock) {
	shown := l.Holders[:min(len(l.Holders), mostHolders)]
	for i, h := range shown {
		if i == 0 {
			a.ui.printf("\n")
		}
		meta := ""
		if len(h.SessionMeta) > 0 {
			meta = ": " + metaText(h.SessionMeta)
		}
		a.ui.indented(fmt.Sprintf("token %d is held by %s, session %s%s", h.Token, format.Clean(h.SessionName), format.Clean(h.Session), meta))
	}
	if more := len(l.Holders) - len(shown) + l.MoreHolders; more > 0 {
		a.ui.printf("and %s more\n", format.Plural(more, "holder"))
	}
}

func (a *app) showQueue(l lockapi.Lock) {
	if len(l.Queue) == 0 {
		return
	}
	a.ui.printf("\n")
	a.ui.table([]column{
		right("PLACE"), right("PRIORITY"), left("WAITING"), left("SESSION").sparing(2), left("MODE").sparing(1), right("FOR"), left("META").sparing(3),
	}, rows(l.Queue, func(w lockapi.Waiter) []string {
		return []string{
			fmt.Sprint(w.Position), fmt.Sprint(w.Priority), format.Clean(w.SessionName) + among(w.Set), format.Clean(w.Session), format.Clean(string(w.Mode)), format.MS(w.WaitingMS), metaText(w.SessionMeta),
		}
	}))
	if more := l.Waiters - len(l.Queue); more > 0 {
		a.ui.printf("and %s more\n", format.Plural(more, "waiter"))
	}
}

// among describes a position that waits for several locks at once.
func among(locks int) string {
	if locks == 0 {
		return ""
	}
	return fmt.Sprintf(" (for %d locks at once)", locks)
}

// metaText formats a session's metadata, sorted by key.
func metaText(meta map[string]string) string {
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		pairs = append(pairs, format.Clean(k)+"="+format.Clean(meta[k]))
	}
	return strings.Join(pairs, "  ")
}

// collect gathers all items of a paged list. Without an error the result is not
// nil, so that JSON has an empty list.
func collect[T any](items iter.Seq2[T, error]) ([]T, error) {
	out := []T{}
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return out, nil
}

// lockRows returns one row per holder; the lock's own columns are on its first
// row.
func (a *app) lockRows(locks []lockapi.Lock) [][]string {
	p := a.ui.out
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

func (a *app) checkSequencer() command {
	return command{
		use: "check SEQUENCER", short: "Check whether the hold that a sequencer describes is still valid", like: "verify validate",
		long: `Checks whether the hold that SEQUENCER describes is still valid. A sequencer has
the form mode:token:path. stout lock prints it and passes it to its command in
STOUT_SEQUENCER.`,
		exits:   readExits("valid", "not valid"),
		example: `  stout check exclusive:42:/jobs/nightly && echo still ours`,
		run: func(ctx context.Context, args []string) error {
			if _, err := lockapi.ParseSequencer(args[0]); err != nil {
				return usagef("%s", err.(*lockapi.Error).Detail).hint("a sequencer looks like exclusive:42:/db/migrate")
			}
			got, err := a.client.CheckSequencer(ctx, args[0])
			switch {
			case err != nil:
				return err
			case a.ui.quiet:
			case a.ui.json:
				err = a.ui.object(got)
			case got.Valid:
				a.ui.printf("%s\n", a.ui.out.OK("valid"))
			default:
				a.ui.printf("%s: %s\n", a.ui.out.Fail("not valid"), format.Clean(got.Reason))
			}
			if err == nil && !got.Valid {
				return &failure{code: exitFailed}
			}
			return err
		},
	}
}

type releaseLock struct {
	*app
	session string
	token   uint64
}

func (a *app) releaseLock() command {
	c := &releaseLock{app: a}
	return command{
		run: c.run,
		use: "release PATH", short: "Take a lock away from its holder", like: "unlock free unhold", words: c.completePath(), check: validPath,
		long: `Releases the lock at PATH by force. If several sessions share it, choose one
with --token or --session. With --session it also removes that session from the
queue.

The holder may continue beside the next holder until it learns of this. stout
lock and programs with the Go client learn of it from the cell at once, if they
can reach it. Only fencing tokens keep the two apart. stout session kill ends
the whole session.`,
		exits: changeExits("released", "there was nothing to release, or it is not clear which hold"),
		example: `  stout release /jobs/nightly
  stout release /pool/workers --token 4711`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.session, "session", "", "`id` of the session that holds or waits")
			f.Uint64Var(&c.token, "token", 0, "fencing `token` of the hold to release")
		},
		values: map[string]completer{"session": c.completeSession()},
	}
}

func (c *releaseLock) run(ctx context.Context, args []string) error {
	path := args[0]
	lock, err := c.client.ReadLock(ctx, path)
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
		f := &failure{code: exitFailed, message: fmt.Sprintf("%s has %d holders; choose one with --token", format.Clean(path), len(found))}
		for _, h := range found {
			f.detail("--token %d  %s, session %s, for %s", h.Token, format.Clean(h.SessionName), format.Clean(h.Session), format.Since(h.GrantedAt))
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
	s, err := c.admin.ReadSession(ctx, c.session)
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
	released, err := c.admin.Release(ctx, path, session, handle, token)
	if err != nil {
		return err
	}
	if !released {
		return c.nothing(path, "it was released at the same moment")
	}
	if c.ui.json {
		err = c.ui.object(lockapi.Released{Released: true})
	} else {
		c.ui.printf("released %s %s\n", format.Clean(path), whose)
	}
	if token != 0 {
		c.ui.note("the former holder may still be running; only a resource that checks tokens refuses its writes")
	}
	return err
}

// nothing returns the error of a release without effect.
func (c *releaseLock) nothing(path, why string) error {
	f := &failure{code: exitFailed, message: fmt.Sprintf("nothing to release at %s: %s", format.Clean(path), why)}
	if c.ui.json {
		if err := c.ui.object(lockapi.Released{}); err != nil {
			return err
		}
	}
	return f.hint("stout locks %s shows its holders", format.Clean(path))
}
