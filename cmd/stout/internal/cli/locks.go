package cli

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) locksCommand() *cobra.Command {
	var stale bool
	cmd := &cobra.Command{
		Use:   "locks [PREFIX]",
		Short: "List the locks that are held, waited for or delayed",
		Long: `Lists the locks whose paths begin with PREFIX (all without it), in the order of
their paths, one line per holder. Where PREFIX is the whole path of one, who
holds it and who waits for it, in which place and for how long, is shown below.
A lock that is free and that nobody waits for leaves nothing behind and is not
listed.

` + exitHelp,
		Example: `  stout locks
  stout locks /db/
  stout locks /db/migrate`,
		Args:              cobra.MaximumNArgs(1),
		SuggestFor:        []string{"list", "ps", "queue", "waiters"},
		ValidArgsFunction: a.completePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := ""
			if len(args) == 1 {
				prefix = args[0]
			}
			if err := validPrefix(prefix); err != nil {
				return err
			}
			return a.locks(cmd.Context(), prefix, readOptions(stale))
		},
	}
	addStale(cmd, &stale)
	return cmd
}

// addStale adds the flag of all commands that only read.
func addStale(cmd *cobra.Command, stale *bool) {
	cmd.Flags().BoolVar(stale, "stale", false, "let any replica answer, also without a master; the answer may be out of date")
}

func readOptions(stale bool) []client.ReadOption {
	if stale {
		return []client.ReadOption{client.Stale()}
	}
	return nil
}

func (a *app) locks(ctx context.Context, prefix string, opts []client.ReadOption) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	locks, err := collect(a.client.ListLocks(ctx, prefix, opts...))
	if err != nil {
		return err
	}
	exact := slices.IndexFunc(locks, func(l lockapi.Lock) bool { return l.Path == prefix })
	if exact >= 0 {
		if locks[exact], err = a.client.ReadLock(ctx, prefix, append(opts, client.Queue(lockapi.MaxWaiters))...); err != nil {
			return err
		}
	}
	if a.ui.json {
		return a.ui.object(lockapi.LockList{Locks: locks})
	}
	if len(locks) == 0 {
		if prefix != "" {
			a.ui.note("no lock%s whose path begins with %s is held or waited for", a.thatMayBeRead(ctx, " that you may read and"), clean(prefix))
		} else {
			a.ui.note("no lock%s is held or waited for", a.thatMayBeRead(ctx, " that you may read"))
		}
		return nil
	}
	a.ui.table([]column{
		left("PATH"), left("STATE"), left("MODE"), right("WAITERS"),
		left("HOLDER"), left("SESSION").sparing(1), right("TOKEN"), right("HELD FOR"),
	}, a.lockRows(locks))
	if exact >= 0 {
		a.showHolders(locks[exact])
		a.showQueue(locks[exact])
	}
	return nil
}

// mostHolders is how many holders of one lock are described.
const mostHolders = 10

// showHolders describes who holds a lock, as far as the table does not.
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
		a.ui.paragraph("", fmt.Sprintf("token %d is held by %s, session %s%s", h.Token, clean(h.SessionName), clean(h.Session), meta))
	}
	if more := len(l.Holders) - len(shown) + l.MoreHolders; more > 0 {
		a.ui.printf("and %s more\n", plural(more, "holder"))
	}
}

// showQueue shows who waits for a lock.
func (a *app) showQueue(l lockapi.Lock) {
	if len(l.Queue) == 0 {
		return
	}
	rows := make([][]string, 0, len(l.Queue))
	for _, w := range l.Queue {
		rows = append(rows, []string{
			fmt.Sprint(w.Position), clean(w.SessionName), clean(w.Session), clean(string(w.Mode)), millis(w.WaitingMS), metaText(w.SessionMeta),
		})
	}
	a.ui.printf("\n")
	a.ui.table([]column{
		right("PLACE"), left("WAITING"), left("SESSION").sparing(2), left("MODE").sparing(1), right("FOR"), left("META").sparing(3),
	}, rows)
	if more := l.Waiters - len(l.Queue); more > 0 {
		a.ui.printf("and %s more\n", plural(more, "waiter"))
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
func (a *app) lockRows(locks []lockapi.Lock) [][]string {
	p := a.ui.out
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
