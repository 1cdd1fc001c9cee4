package cli

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) deadlocks() runner {
	var stale bool
	return viewer(a, command{
		use: "deadlocks", short: "Find sessions that wait for each other", like: "deadlock cycles circles", exits: reads,
		long: `Finds deadlocks: circles of sessions in which each session waits for a lock that
the next one holds or is ahead for in the queue. A deadlock lasts until one
session gives up or is ended (stout session kill).

A session counts as a whole. A program with several threads may hold and wait
with different threads, and still make progress.`,
		flags: func(f *pflag.FlagSet) { addStale(f, &stale) },
	}, func(ctx context.Context, _ []string) (l lockapi.Deadlocks, err error) {
		l.Deadlocks, err = a.client.Deadlocks(ctx, readOptions(stale)...)
		if err == nil && len(l.Deadlocks) == 0 && !a.ui.json {
			a.ui.note("no sessions wait for each other%s", a.thatMayBeRead(ctx, " over locks that you may read"))
		}
		return l, err
	}, func(l lockapi.Deadlocks) {
		if len(l.Deadlocks) > 0 {
			a.printDeadlocks(l.Deadlocks)
			a.ui.note("a deadlock ends when one of its sessions gives up; stout session kill SESSION ends one")
		}
	})
}

// printDeadlocks prints deadlocks, one line per session.
func (a *app) printDeadlocks(all []lockapi.Deadlock) {
	for i, d := range all {
		if i > 0 {
			a.ui.printf("\n")
		}
		head, lines := format.Deadlock(d)
		a.ui.printf("%s\n", a.ui.out.fail.Render(head))
		for _, line := range lines {
			a.ui.indented(line)
		}
	}
}
