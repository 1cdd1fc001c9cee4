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
	"github.com/stoutlock/stout/lockapi"
)

type listLocks struct {
	*app
	stale bool
}

func (c *listLocks) command() command {
	return command{
		use: "locks [PREFIX]", short: "List the locks that are held, waited for or delayed", like: "list ps queue waiters", words: c.completePath(),
		long: `Lists the locks whose paths begin with PREFIX (all without it), in the order of
their paths, one line per holder. Where PREFIX is the whole path of one, who
holds it and who waits for it, in which place and for how long, is shown below.
A lock that is free and that nobody waits for leaves nothing behind and is not
listed.`,
		exits: reads,
		example: `  stout locks
  stout locks /db/
  stout locks /db/migrate`,
		flags: func(f *pflag.FlagSet) { addStale(f, &c.stale) },
	}
}

// addStale adds the flag of all commands that only read.
func addStale(flags *pflag.FlagSet, stale *bool) {
	flags.BoolVar(stale, "stale", false, "let any replica answer, also without a master; the answer may be out of date")
}

func readOptions(stale bool) []client.ReadOption {
	if stale {
		return []client.ReadOption{client.Stale()}
	}
	return nil
}

func (c *listLocks) run(ctx context.Context, args []string) error {
	prefix, opts := strings.Join(args, ""), readOptions(c.stale)
	if err := validPrefix(prefix); err != nil {
		return err
	}
	locks, err := collect(c.client.ListLocks(ctx, prefix, opts...))
	exact := slices.IndexFunc(locks, func(l lockapi.Lock) bool { return l.Path == prefix })
	if exact >= 0 {
		locks[exact], err = c.client.ReadLock(ctx, prefix, append(opts, client.Queue(lockapi.MaxWaiters))...)
	}
	return answer(c.ui, lockapi.LockList{Locks: locks}, err, func(lockapi.LockList) {
		switch {
		case len(locks) > 0:
			c.ui.table([]column{
				left("PATH"), left("STATE"), left("MODE"), right("WAITERS"),
				left("HOLDER"), left("SESSION").sparing(1), right("TOKEN"), right("HELD FOR"),
			}, c.lockRows(locks))
		case prefix == "":
			c.ui.note("no lock%s is held or waited for", c.thatMayBeRead(ctx, " that you may read"))
		default:
			c.ui.note("no lock%s whose path begins with %s is held or waited for", c.thatMayBeRead(ctx, " that you may read and"), clean(prefix))
		}
		if exact >= 0 {
			c.showHolders(locks[exact])
			c.showQueue(locks[exact])
		}
	})
}

// mostHolders is how many holders of one lock are described.
const mostHolders = 10

// showHolders describes who holds a lock, as far as the table does not.
func (c *listLocks) showHolders(l lockapi.Lock) {
	shown := l.Holders[:min(len(l.Holders), mostHolders)]
	for i, h := range shown {
		if i == 0 {
			c.ui.printf("\n")
		}
		meta := ""
		if len(h.SessionMeta) > 0 {
			meta = ": " + metaText(h.SessionMeta)
		}
		c.ui.paragraph("", fmt.Sprintf("token %d is held by %s, session %s%s", h.Token, clean(h.SessionName), clean(h.Session), meta))
	}
	if more := len(l.Holders) - len(shown) + l.MoreHolders; more > 0 {
		c.ui.printf("and %s more\n", plural(more, "holder"))
	}
}

// showQueue shows who waits for a lock.
func (c *listLocks) showQueue(l lockapi.Lock) {
	if len(l.Queue) == 0 {
		return
	}
	c.ui.printf("\n")
	c.ui.table([]column{
		right("PLACE"), left("WAITING"), left("SESSION").sparing(2), left("MODE").sparing(1), right("FOR"), left("META").sparing(3),
	}, rows(l.Queue, func(w lockapi.Waiter) []string {
		return []string{
			fmt.Sprint(w.Position), clean(w.SessionName), clean(w.Session), clean(string(w.Mode)), millis(w.WaitingMS), metaText(w.SessionMeta),
		}
	}))
	if more := l.Waiters - len(l.Queue); more > 0 {
		c.ui.printf("and %s more\n", plural(more, "waiter"))
	}
}

// metaText writes a session's metadata, in the order of its keys.
func metaText(meta map[string]string) string {
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		pairs = append(pairs, clean(k)+"="+clean(meta[k]))
	}
	return strings.Join(pairs, "  ")
}

// collect gathers what the client pages through. It is never nil without an
// error, so that JSON shows an empty list as one.
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

// lockRows has one row per holder; a lock's own columns are on its first.
func (c *listLocks) lockRows(locks []lockapi.Lock) [][]string {
	p := c.ui.out
	var rows [][]string
	for _, l := range locks {
		state, mode, waiters := p.plain.Render(clean(l.State)), string(l.Mode), fmt.Sprint(l.Waiters)
		if l.DelayRemainingMS > 0 {
			state = p.warn.Render(fmt.Sprintf("%s, delay %s", clean(l.State), millis(l.DelayRemainingMS)))
		}
		if l.Limit > 0 {
			mode = fmt.Sprintf("%s %d/%d", l.Mode, len(l.Holders)+l.MoreHolders, l.Limit)
		}
		if l.Waiters > 0 {
			waiters = p.warn.Render(waiters)
		}
		lock := []string{clean(l.Path), state, clean(mode), waiters}
		for _, h := range l.Holders {
			rows = append(rows, append(lock, clean(h.SessionName), clean(h.Session), fmt.Sprint(h.Token), since(h.GrantedAt)))
			lock = []string{"", "", "", ""}
		}
		if len(l.Holders) == 0 {
			rows = append(rows, append(lock, "-", "-", "-", "-"))
		}
	}
	return rows
}

type checkSequencer struct{ *app }

func (c *checkSequencer) command() command {
	return command{
		use: "check SEQUENCER", short: "Ask whether the grant that a sequencer describes is still held", like: "verify validate",
		long: `Asks whether the very grant that SEQUENCER tells of is held now. A sequencer is
what stout lock prints, and has in STOUT_SEQUENCER: mode:token:path.

Exit codes: 0 valid, 1 not valid, 2 wrong usage or no sequencer, 3 the cell has
no master, 4 no replica can be reached.`,
		example: `  stout check exclusive:42:/jobs/nightly && echo still ours`,
	}
}

func (c *checkSequencer) run(ctx context.Context, args []string) error {
	if _, err := lockapi.ParseSequencer(args[0]); err != nil {
		return usagef("%s", err.(*lockapi.Error).Detail).hint("a sequencer is like exclusive:42:/db/migrate")
	}
	got, err := c.client.CheckSequencer(ctx, args[0])
	switch {
	case err != nil:
		return err
	case c.ui.quiet:
	case c.ui.json:
		err = c.ui.object(got)
	case got.Valid:
		c.ui.printf("%s\n", c.ui.out.good.Render("valid"))
	default:
		c.ui.printf("%s: %s\n", c.ui.out.fail.Render("not valid"), clean(got.Reason))
	}
	if err == nil && !got.Valid {
		return &failure{code: exitFailed}
	}
	return err
}
