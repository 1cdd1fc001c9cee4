package cli

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

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
		if len(d.Links) == 1 {
			a.ui.printf("%s\n", a.ui.out.fail.Render("A session waits for itself:"))
		} else {
			a.ui.printf("%s\n", a.ui.out.fail.Render(fmt.Sprintf("%d sessions wait for each other:", len(d.Links)+d.MoreLinks)))
		}
		for i, l := range d.Links {
			next := d.Links[(i+1)%len(d.Links)]
			why := fmt.Sprintf("behind %s in the queue", clean(next.SessionName))
			if l.Token != 0 {
				why = fmt.Sprintf("which %s holds with token %d", clean(next.SessionName), l.Token)
			}
			if d.MoreLinks > 0 && i == len(d.Links)-1 {
				why = "behind a session that is not shown"
			}
			a.ui.indented(fmt.Sprintf("%s (session %s) waits %s for %s, %s", clean(l.SessionName), clean(l.Session), millis(l.WaitingMS), clean(l.Path), why))
		}
		if d.MoreLinks > 0 {
			a.ui.indented(fmt.Sprintf("and %d more; the last one waits for the first session", d.MoreLinks))
		}
	}
}
