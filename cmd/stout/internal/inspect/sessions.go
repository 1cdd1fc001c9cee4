package inspect

import (
	"context"
	"fmt"
	"iter"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

type sessions struct{ *app.App }

func (a *sessions) listSessions() app.Command {
	return app.Viewer(a.App, app.Command{
		Use: "sessions", Short: "List the open sessions", SuggestFor: "clients", Exits: exit.Reads, Unlimited: true,
		Long: `Lists the open sessions, the time left of their leases, and how many locks each
holds and waits for.`,
		Flags: a.AddStale,
	}, func(ctx context.Context, _ []string) (l lockapi.SessionList, err error) {
		l.Sessions, err = app.CollectPages(ctx, a.App, func(ctx context.Context) iter.Seq2[lockapi.SessionState, error] {
			return a.Admin.ListSessions(ctx, a.ReadOptions()...)
		})
		return l, err
	}, func(l lockapi.SessionList) {
		ui.List(a.UI, l.Sessions, "there are no open sessions", []ui.Column{
			ui.Left("SESSION"), ui.Left("NAME"), ui.Right("TTL").Drop(1), ui.Right("LEASE LEFT"),
			ui.Right("HOLDS"), ui.Right("WAITS"), ui.Right("AGE").Drop(2),
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
func (a *sessions) leaseLeft(s lockapi.SessionState) string {
	if s.LeaseRemainingMS == nil {
		return "-"
	}
	left := format.MS(*s.LeaseRemainingMS)
	if *s.LeaseRemainingMS < s.TTLMS/4 {
		return a.UI.Out.Warn(left)
	}
	return left
}

func (a *sessions) session() app.Command {
	show := app.Viewer(a.App, app.Command{
		Use: "show SESSION", Short: "Show a session with its locks and waits",
		Long: "Shows a session with the locks that it holds and waits for.", Exits: exit.Reads, Complete: a.CompleteSession(),
		Flags: a.AddStale,
	}, func(ctx context.Context, args []string) (lockapi.SessionState, error) {
		return a.Admin.ReadSession(ctx, args[0], a.ReadOptions()...)
	}, a.printSession)
	return app.Command{Use: "session", Short: "Show or end one session", SuggestFor: "kill", Sub: []app.Command{show, a.killSession()}}
}

func (a *sessions) printSession(s lockapi.SessionState) {
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
	a.UI.Pairs(pairs...)
	if len(s.Holds) == 0 {
		a.UI.Printf("\nholds no locks\n")
	} else {
		a.UI.Printf("\n")
		a.UI.Table([]ui.Column{ui.Left("HOLDS"), ui.Left("MODE"), ui.Right("TOKEN"), ui.Left("HANDLE"), ui.Left("SEQUENCER")}, ui.Rows(s.Holds, func(h lockapi.Hold) []string {
			return []string{format.Clean(h.Path), format.Clean(string(h.Mode)), fmt.Sprint(h.Token), format.Clean(h.Handle), format.Clean(h.Sequencer)}
		}))
	}
	if len(s.Waits) > 0 {
		a.UI.Printf("\n")
		a.UI.Table([]ui.Column{ui.Left("WAITS FOR"), ui.Left("MODE"), ui.Right("PLACE"), ui.Left("HANDLE")}, ui.Rows(s.Waits, func(w lockapi.Wait) []string {
			return []string{format.Clean(w.Path), format.Clean(string(w.Mode)), fmt.Sprint(w.Position), format.Clean(w.Handle)}
		}))
	}
}

// killSession reads the session first. The cell accepts the end of a missing
// session, but for a person that is a typing error.
func (a *sessions) killSession() app.Command {
	return app.Viewer(a.App, app.Command{
		Use: "kill SESSION", Short: "End a session and release its locks at once",
		Long: `Ends a session. Its locks become free at once, without lock-delay, and its waits
are dropped. Its program learns of this from its next keepalive, which may be
seconds later. Until then it may continue beside the next holder; only fencing
tokens keep the two apart.`,
		Exits: exit.Changes, Complete: a.CompleteSession(),
	}, func(ctx context.Context, args []string) (lockapi.SessionState, error) {
		s, err := a.Admin.ReadSession(ctx, args[0])
		if err == nil {
			err = a.Admin.KillSession(ctx, args[0])
		}
		return s, err
	}, func(s lockapi.SessionState) {
		if len(s.Holds) == 0 {
			a.UI.Printf("ended session %s (%s), which held no locks\n", format.Clean(s.ID), format.Clean(s.Name))
			return
		}
		a.UI.Printf("ended session %s (%s), which released:\n", format.Clean(s.ID), format.Clean(s.Name))
		for _, h := range s.Holds {
			a.UI.Printf("  %s  token %d\n", format.Clean(h.Path), h.Token)
		}
	})
}

func (a *sessions) deadlocks() app.Command {
	return app.Viewer(a.App, app.Command{
		Use: "deadlocks", Short: "Find sessions that wait for each other", SuggestFor: "deadlock cycles circles waits", Exits: exit.Reads,
		Long: `Finds cycles of waits: each session waits for a lock that the next one holds,
and the last session waits for the first.

A cycle is a deadlock only if each session keeps its lock until it gets the
other. Only the programs can know. Two candidates that each lead one role and
stand by for the other's form a healthy cycle. So do not end a session because
it is in a cycle: find out first whether the program still works.`,
		Flags: a.AddStale,
	}, func(ctx context.Context, _ []string) (l lockapi.Deadlocks, err error) {
		l.Deadlocks, err = a.Admin.Deadlocks(ctx, a.ReadOptions()...)
		if err == nil && len(l.Deadlocks) == 0 && !a.UI.JSON {
			a.UI.Note("no sessions wait for each other%s", a.Collector().IfLimited(ctx, " over locks that you may read"))
		}
		return l, err
	}, func(l lockapi.Deadlocks) {
		if len(l.Deadlocks) > 0 {
			a.printDeadlocks(l.Deadlocks)
			a.UI.Note("a cycle is a deadlock only if no session releases its lock before it gets the other")
		}
	})
}

func (a *sessions) printDeadlocks(all []lockapi.Deadlock) {
	for i, d := range all {
		if i > 0 {
			a.UI.Printf("\n")
		}
		head, lines := format.Deadlock(d)
		a.UI.Printf("%s\n", head)
		for _, line := range lines {
			a.UI.Indent(line)
		}
	}
}
