package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) sessionsCommand() *cobra.Command {
	var stale bool
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List the open sessions",
		Long: `Lists the sessions that live, what is left of their leases, and how many locks
each holds and waits for.

` + exitHelp,
		SuggestFor:        []string{"clients"},
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.sessions(cmd.Context(), readOptions(stale))
		},
	}
	addStale(cmd, &stale)
	return cmd
}

func (a *app) sessions(ctx context.Context, opts []client.ReadOption) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	sessions, err := collect(a.client.ListSessions(ctx, opts...))
	if err != nil {
		return err
	}
	if a.ui.json {
		return a.ui.object(lockapi.SessionList{Sessions: sessions})
	}
	if len(sessions) == 0 {
		a.ui.note("no session lives")
		return nil
	}
	rows := make([][]string, 0, len(sessions))
	for _, s := range sessions {
		rows = append(rows, []string{
			clean(s.ID), clean(s.Name), millis(s.TTLMS), a.leaseLeft(s),
			fmt.Sprint(len(s.Holds)), fmt.Sprint(len(s.Waits)), since(s.CreatedAt),
		})
	}
	a.ui.table([]column{
		left("SESSION"), left("NAME"), right("TTL").sparing(1), right("LEASE LEFT"),
		right("HOLDS"), right("WAITS"), right("AGE").sparing(2),
	}, rows)
	return nil
}

// leaseLeft warns of a lease that was not renewed as it usually is.
func (a *app) leaseLeft(s lockapi.SessionState) string {
	if s.LeaseRemainingMS == nil {
		return "-"
	}
	left := millis(*s.LeaseRemainingMS)
	if *s.LeaseRemainingMS < s.TTLMS/4 {
		return a.ui.out.warn.Render(left)
	}
	return left
}

func (a *app) sessionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "session",
		Short:      "Show or end one session",
		SuggestFor: []string{"kill"},
		Args:       cobra.NoArgs,
		RunE:       func(*cobra.Command, []string) error { return usagef("say what to do: stout session show or kill") },
	}
	var stale bool
	show := &cobra.Command{
		Use:               "show SESSION",
		Short:             "Show a session with all that it holds and waits for",
		Long:              "Shows a session with all that it holds and waits for.\n\n" + exitHelp,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.showSession(cmd.Context(), args[0], readOptions(stale))
		},
	}
	addStale(show, &stale)
	kill := &cobra.Command{
		Use:   "kill SESSION",
		Short: "End a session: all that it holds is free at once",
		Long: `Ends a session. All that it holds is free at once, without lock-delay, and its
waits are dropped. Its program learns of it by its next keepalive, which may be
seconds later: until then it may work on, beside the next holder. Only fencing
tokens keep these apart.

` + changeHelp,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeSession,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.killSession(cmd.Context(), args[0]) },
	}
	cmd.AddCommand(show, kill)
	return cmd
}

func (a *app) showSession(ctx context.Context, id string, opts []client.ReadOption) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	s, err := a.client.ReadSession(ctx, id, opts...)
	if err != nil {
		return err
	}
	if a.ui.json {
		return a.ui.object(s)
	}
	word, lease := "ttl", millis(s.TTLMS)
	if s.LeaseRemainingMS != nil {
		word, lease = "lease", fmt.Sprintf("%s of %s left", a.leaseLeft(s), lease)
	}
	pairs := [][2]string{
		{"session", clean(s.ID)}, {"name", clean(s.Name)}, {word, lease},
		{"age", since(s.CreatedAt)}, {"epoch", fmt.Sprint(s.Epoch)},
	}
	if len(s.Meta) > 0 {
		pairs = append(pairs, [2]string{"meta", metaText(s.Meta)})
	}
	a.ui.pairs(pairs...)
	a.showHolds(s.Holds)
	a.showWaits(s.Waits)
	return nil
}

func (a *app) showHolds(holds []lockapi.Hold) {
	if len(holds) == 0 {
		a.ui.printf("\nholds nothing\n")
		return
	}
	rows := make([][]string, 0, len(holds))
	for _, h := range holds {
		rows = append(rows, []string{clean(h.Path), clean(string(h.Mode)), fmt.Sprint(h.Token), clean(h.Handle), clean(h.Sequencer)})
	}
	a.ui.printf("\n")
	a.ui.table([]column{left("HOLDS"), left("MODE"), right("TOKEN"), left("HANDLE"), left("SEQUENCER")}, rows)
}

func (a *app) showWaits(waits []lockapi.Wait) {
	if len(waits) == 0 {
		return
	}
	rows := make([][]string, 0, len(waits))
	for _, w := range waits {
		rows = append(rows, []string{clean(w.Path), clean(string(w.Mode)), fmt.Sprint(w.Position), clean(w.Handle)})
	}
	a.ui.printf("\n")
	a.ui.table([]column{left("WAITS FOR"), left("MODE"), right("PLACE"), left("HANDLE")}, rows)
}

// killSession reads the session first: closing one that does not exist is no
// error to the cell, but it is to someone who mistyped an id.
func (a *app) killSession(ctx context.Context, id string) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	s, err := a.client.ReadSession(ctx, id)
	if err != nil {
		return err
	}
	if err := a.client.KillSession(ctx, id); err != nil {
		return err
	}
	if a.ui.json {
		return a.ui.object(s)
	}
	if len(s.Holds) == 0 {
		a.ui.printf("ended session %s (%s), which held nothing\n", clean(s.ID), clean(s.Name))
		return nil
	}
	a.ui.printf("ended session %s (%s), which freed:\n", clean(s.ID), clean(s.Name))
	for _, h := range s.Holds {
		a.ui.printf("  %s  token %d\n", clean(h.Path), h.Token)
	}
	return nil
}
