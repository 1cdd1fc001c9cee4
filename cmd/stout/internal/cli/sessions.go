package cli

import (
	"context"
	"fmt"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) sessions() command {
	return viewer(a, command{
		use: "sessions", short: "List the open sessions", like: "clients", exits: reads,
		long: `Lists the open sessions, the time left of their leases, and how many locks each
holds and waits for.`,
		flags: a.addStale,
	}, func(ctx context.Context, _ []string) (l lockapi.SessionList, err error) {
		l.Sessions, err = collect(a.admin.ListSessions(ctx, a.readOptions()...))
		return l, err
	}, func(l lockapi.SessionList) {
		list(a.ui, l.Sessions, "there are no open sessions", []column{
			left("SESSION"), left("NAME"), right("TTL").sparing(1), right("LEASE LEFT"),
			right("HOLDS"), right("WAITS"), right("AGE").sparing(2),
		}, func(s lockapi.SessionState) []string {
			return []string{
				format.Clean(s.ID), format.Clean(s.Name), format.MS(s.TTLMS), a.leaseLeft(s),
				fmt.Sprint(len(s.Holds)), fmt.Sprint(len(s.Waits)), format.Since(s.CreatedAt),
			}
		})
	})
}

// leaseLeft returns the time left of a lease, as a warning if renewals are
// late.
func (a *app) leaseLeft(s lockapi.SessionState) string {
	if s.LeaseRemainingMS == nil {
		return "-"
	}
	left := format.MS(*s.LeaseRemainingMS)
	if *s.LeaseRemainingMS < s.TTLMS/4 {
		return a.ui.out.Warn(left)
	}
	return left
}

func (a *app) session() command {
	show := viewer(a, command{
		use: "show SESSION", short: "Show a session with its locks and waits",
		long: "Shows a session with the locks that it holds and waits for.", exits: reads, words: a.completeSession(),
		flags: a.addStale,
	}, func(ctx context.Context, args []string) (lockapi.SessionState, error) {
		return a.admin.ReadSession(ctx, args[0], a.readOptions()...)
	}, a.printSession)
	return command{use: "session", short: "Show or end one session", like: "kill", sub: []command{show, a.killSession()}}
}

func (a *app) printSession(s lockapi.SessionState) {
	word, lease := "ttl", format.MS(s.TTLMS)
	if s.LeaseRemainingMS != nil {
		word, lease = "lease", fmt.Sprintf("%s of %s left", a.leaseLeft(s), lease)
	}
	pairs := [][2]string{
		{"session", format.Clean(s.ID)}, {"name", format.Clean(s.Name)}, {word, lease},
		{"age", format.Since(s.CreatedAt)}, {"epoch", fmt.Sprint(s.Epoch)},
	}
	if len(s.Meta) > 0 {
		pairs = append(pairs, [2]string{"meta", metaText(s.Meta)})
	}
	a.ui.pairs(pairs...)
	if len(s.Holds) == 0 {
		a.ui.printf("\nholds no locks\n")
	} else {
		a.ui.printf("\n")
		a.ui.table([]column{left("HOLDS"), left("MODE"), right("TOKEN"), left("HANDLE"), left("SEQUENCER")}, rows(s.Holds, func(h lockapi.Hold) []string {
			return []string{format.Clean(h.Path), format.Clean(string(h.Mode)), fmt.Sprint(h.Token), format.Clean(h.Handle), format.Clean(h.Sequencer)}
		}))
	}
	if len(s.Waits) > 0 {
		a.ui.printf("\n")
		a.ui.table([]column{left("WAITS FOR"), left("MODE"), right("PLACE"), left("HANDLE")}, rows(s.Waits, func(w lockapi.Wait) []string {
			return []string{format.Clean(w.Path), format.Clean(string(w.Mode)), fmt.Sprint(w.Position), format.Clean(w.Handle)}
		}))
	}
}

// killSession reads the session first. The cell accepts the end of a missing
// session, but for a person that is a typing error.
func (a *app) killSession() command {
	return viewer(a, command{
		use: "kill SESSION", short: "End a session and release its locks at once",
		long: `Ends a session. Its locks become free at once, without lock-delay, and its waits
are dropped. Its program learns of this from its next keepalive, which may be
seconds later. Until then it may continue beside the next holder; only fencing
tokens keep the two apart.`,
		exits: changes, words: a.completeSession(),
	}, func(ctx context.Context, args []string) (lockapi.SessionState, error) {
		s, err := a.admin.ReadSession(ctx, args[0])
		if err == nil {
			err = a.admin.KillSession(ctx, args[0])
		}
		return s, err
	}, func(s lockapi.SessionState) {
		if len(s.Holds) == 0 {
			a.ui.printf("ended session %s (%s), which held no locks\n", format.Clean(s.ID), format.Clean(s.Name))
			return
		}
		a.ui.printf("ended session %s (%s), which released:\n", format.Clean(s.ID), format.Clean(s.Name))
		for _, h := range s.Holds {
			a.ui.printf("  %s  token %d\n", format.Clean(h.Path), h.Token)
		}
	})
}

func (a *app) deadlocks() command {
	return viewer(a, command{
		use: "deadlocks", short: "Find sessions that wait for each other", like: "deadlock cycles circles waits", exits: reads,
		long: `Finds cycles of waits: each session waits for a lock that the next one holds,
and the last session waits for the first.

A cycle is a deadlock only if each session keeps its lock until it gets the
other. Only the programs can know. Two candidates that each lead one role and
stand by for the other's form a healthy cycle. So do not end a session because
it is in a cycle: find out first whether the program still works.`,
		flags: a.addStale,
	}, func(ctx context.Context, _ []string) (l lockapi.Deadlocks, err error) {
		l.Deadlocks, err = a.admin.Deadlocks(ctx, a.readOptions()...)
		if err == nil && len(l.Deadlocks) == 0 && !a.ui.json {
			a.ui.note("no sessions wait for each other%s", a.thatMayBeRead(ctx, " over locks that you may read"))
		}
		return l, err
	}, func(l lockapi.Deadlocks) {
		if len(l.Deadlocks) > 0 {
			a.printDeadlocks(l.Deadlocks)
			a.ui.note("a cycle is a deadlock only if no session releases its lock before it gets the other")
		}
	})
}

func (a *app) printDeadlocks(all []lockapi.Deadlock) {
	for i, d := range all {
		if i > 0 {
			a.ui.printf("\n")
		}
		head, lines := format.Deadlock(d)
		a.ui.printf("%s\n", head)
		for _, line := range lines {
			a.ui.indented(line)
		}
	}
}
