package members

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/rehearse"
	"github.com/stoutlock/stout/cmd/stout/internal/survey"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/lockapi"
)

// exitNotAsItShould is the exit code of a completed rehearsal that lost
// something or came near it.
const exitNotAsItShould = 5

// rehearsalPath is the default path of a rehearsal's own locks.
const rehearsalPath = "/stout-rehearsal"

type rehearseFailover struct {
	*app.App
	to, path     string
	lead, settle time.Duration
}

func (a *rehearseFailover) command() app.Command {
	return app.Command{
		Run: a.run,
		Use: "failover", Short: "Change the master and measure the effect on sessions and waiters", SuggestFor: "transfer fail-over", Unlimited: true,
		Long: `Checks that a change of master is safe, shows what will happen, asks, and then
changes the master while measuring:

  - the time without service, by calls to all replicas in turn, without retries
  - for each session, how much of its ttl was left when service was back
  - for each waiter, whether it kept its queue position

The rehearsal's own locks are below ` + rehearsalPath + `. They and its
sessions are removed at the end, also after Ctrl-C.

The result is a no-go, and nothing is changed, unless all voters are healthy and
up to date, the cell tolerates one more failure, and no change of members is
under way. Sessions that may come near their end are listed first.

This needs the rights to operate and to observe the cell, and to lock and read
below --path.`,
		Exits: exit.ReadExits("done, nothing was lost", "a no-go, or the cell refused") + ", 5 done, but something was lost or nearly lost",
		Example: `  stout rehearse failover
  stout rehearse failover --to r2 --yes -o json`,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&a.to, "to", "", "`id` of the new master; else the cell chooses")
			f.StringVar(&a.path, "path", rehearsalPath, "`path` for the rehearsal's own locks")
			a.AddYes(f)
			f.DurationVar(&a.lead, "before", rehearse.Lead, "measure for this `duration` before the change")
			f.DurationVar(&a.settle, "after", rehearse.Settle, "measure for this `duration` after the change")
		},
		CompleteFlags: map[string]app.Completer{"to": a.CompleteReplica()},
	}
}

func (a *rehearseFailover) check() error {
	if err := app.ValidPath(a.path + "/x/held"); err != nil {
		return err
	}
	for name, d := range map[string]time.Duration{"--before": a.lead, "--after": a.settle} {
		if d < 500*time.Millisecond || d > 10*time.Minute {
			return exit.Usagef("%s is %v; it must be from 500ms to 10m", name, d)
		}
	}
	return nil
}

func (a *rehearseFailover) run(ctx context.Context, _ []string) error {
	if err := a.check(); err != nil {
		return err
	}
	if !a.Options.Yes {
		if err := a.MayAsk("a rehearsal changes the master"); err != nil {
			return err
		}
	}
	run := rehearse.Rehearsal{
		Client: a.Client, Poller: a.Asker(),
		Path: a.path, To: a.to, Lead: a.lead, Settle: a.settle,
		Doing: func(what string) { a.UI.Progress(what, what) },
	}
	run.Poller.Via = &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 128, TLSHandshakeTimeout: 2 * time.Second,
	}
	if a.Certs != nil {
		run.Poller.Via.(*http.Transport).TLSClientConfig = a.Certs.Client().Clone()
	}
	looking, cancel := a.WithTimeout(ctx)
	defer cancel()
	before, err := run.Look(looking)
	if err != nil {
		return err
	}
	if !ask.InOffice(before.Cell) {
		return survey.NoMaster(before.Cell)
	}
	if run.URLs, err = a.proberURLs(looking, before.Cell); err != nil {
		return err
	}
	if err := run.Rights(looking, before); err != nil {
		return err
	}
	concerns := rehearse.Assess(before)
	if !rehearse.Go(concerns) {
		return a.noGo(concerns)
	}
	if err := a.Warn("a rehearsal changes the master", plan(before, concerns), "Change the master?"); err != nil {
		return err
	}
	if a.Options.Yes {
		for _, c := range concerns {
			a.UI.Note("%s", c.What)
		}
	}
	signals, stop := child.Signals()
	defer stop()
	report, err := app.CancelOnSignal(ctx, signals, nil, func(ctx context.Context) (rehearse.Report, error) { return run.Run(ctx, before) })
	a.UI.Progress("", "")
	if late, ok := errors.AsType[*rehearse.NoGo](err); ok {
		return a.noGo(late.Warnings)
	}
	if f, ok := errors.AsType[*exit.Failure](err); ok {
		interrupted(f, report)
	}
	if err != nil {
		return err
	}
	err = ui.Answer(a.UI, rehearsed{true, concerns, &report}, nil, func(rehearsed) { a.showRehearsal(report) })
	if err == nil && report.Verdict != rehearse.Passed {
		return &exit.Failure{Code: exitNotAsItShould}
	}
	return err
}

// interrupted adds what an interrupted rehearsal leaves behind.
func interrupted(f *exit.Failure, report rehearse.Report) {
	f.Message = "interrupted; the rehearsal's own sessions were closed"
	if report.Left != nil {
		f.Message = fmt.Sprintf("interrupted; the rehearsal's own sessions could not be closed (%s) and will expire", safetext.Line(report.Left.Error()))
	}
	if report.Changed {
		f.Detail("the change of master was already requested")
	} else {
		f.Detail("no change of master was requested")
	}
	f.Hint("stout status shows the master")
}

type rehearsed struct {
	Go       bool               `json:"go"`
	Warnings []rehearse.Warning `json:"concerns"`
	Report   *rehearse.Report   `json:"report,omitempty"`
}

func (a *rehearseFailover) noGo(concerns []rehearse.Warning) error {
	out := exit.Errorf(exit.Failed, "no-go: nothing was changed")
	if a.UI.JSON {
		if err := a.UI.Object(rehearsed{false, concerns, nil}); err != nil {
			return err
		}
	}
	for _, c := range concerns {
		if c.NoGo {
			out.Detail("%s", c.What)
		}
	}
	return out.Hint("stout status and stout doctor show what is wrong and what to do")
}

func plan(b *rehearse.Before, concerns []rehearse.Warning) string {
	to := "another replica"
	if b.To != "" {
		to = format.Clean(b.To)
	}
	what := fmt.Sprintf("Mastership will be handed over from %s to %s.", format.Clean(b.Cell.Master.ID), to)
	text := fmt.Sprintf("Go: all members are healthy. %s Service may pause for up to %s, in which calls wait or fail; %s and their locks stay.",
		what, format.Human(b.Gap()), format.Plural(len(b.Sessions), "session"))
	for _, c := range concerns {
		text += " Note: " + safetext.Line(c.What) + "."
	}
	return text
}

// proberURLs returns the URLs that the prober calls: the URLs of healthy
// members, or else those known to the client, except URLs with a separate
// certificate name.
func (a *rehearseFailover) proberURLs(ctx context.Context, cell lockapi.Cell) (urls []string, err error) {
	for _, r := range cell.Replicas {
		if r.Healthy && lockapi.ValidateMemberURL(r.URL) == nil && a.Collector().MayCall(r.URL) == nil {
			urls = append(urls, strings.TrimRight(r.URL, "/"))
		}
	}
	if len(urls) > 0 {
		return urls, nil
	}
	known, err := a.Admin.URLs(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range known {
		if !strings.Contains(u, " ") {
			urls = append(urls, u)
		}
	}
	if len(urls) == 0 {
		return nil, fmt.Errorf("no member's URL can be called from here, and the addresses behind %s have certificates for its name; name the replicas by their URLs with --server", strings.Join(a.Options.Servers, ", "))
	}
	return urls, nil
}

func (a *rehearseFailover) showRehearsal(r rehearse.Report) {
	p := a.UI.Out
	verdict := map[string]string{
		rehearse.Passed: p.OK("passed"), rehearse.Look: p.Warn("needs a look"), rehearse.Failed: p.Fail("failed"),
	}[r.Verdict]
	lines := [][2]string{
		{"verdict", verdict},
		{"master", fmt.Sprintf("%s in epoch %d, formerly %s in epoch %d", format.Clean(r.After.Master), r.After.Epoch, format.Clean(r.Before.Master), r.Before.Epoch)},
		{"writes", serviceText(r.Writes)},
		{"reads", serviceText(r.Reads)},
		{"sdk calls", fmt.Sprintf("%s, %d failed; slowest %s", format.Plural(r.Own.Calls, "call"), r.Own.Failed, msText(r.Own.Slowest))},
		{"sessions", sessionsText(r)},
		{"holds", ofOthers(r.Holds.Seen, "%d of %d kept, %d released, %d ended with their sessions", r.Holds.Kept, r.Holds.Seen, r.Holds.Given, r.Holds.Lost)},
		{"waiters", ofOthers(r.Waiters.Seen, "%d of %d kept their positions, %d got the lock, %d gave up, %d ended with their sessions, %d overtaken",
			r.Waiters.Kept, r.Waiters.Seen, r.Waiters.Granted, r.Waiters.Given, r.Waiters.Lost, len(r.Waiters.Overtaken))},
		{"own locks", ownText(r.Own)},
	}
	for _, l := range lines {
		a.UI.Block(p.Faint(fmt.Sprintf("%-10s", l[0]))+"  ", fmt.Sprintf("%12s", ""), l[1])
	}
	for _, why := range r.Why {
		a.UI.Printf("\n")
		a.UI.Text(safetext.Line(why) + ".")
	}
	a.showNear("NEAREST TO ITS END", r.Nearest)
	a.showNear("EXPIRED", r.Expired)
	for _, w := range r.Waiters.Overtaken {
		a.UI.Note("overtaken: %s", w)
	}
}

func (a *rehearseFailover) showNear(title string, all []rehearse.Near) {
	if len(all) == 0 {
		return
	}
	a.UI.Printf("\n")
	a.UI.Table([]ui.Column{ui.Left(title), ui.Left("NAME"), ui.Right("TTL"), ui.Right("LEFT")}, ui.Rows(all, func(n rehearse.Near) []string {
		return []string{format.Clean(n.Session), format.Clean(n.Name), format.MS(n.TTLMS), format.MS(n.LeftMS)}
	}))
}

func serviceText(s rehearse.Service) string {
	text := fmt.Sprintf("no success for %s (usually %s)", msText(s.GapMS), msText(s.UsualMS))
	if s.LaterMS > max(s.GapMS, s.UsualMS) {
		text += fmt.Sprintf(", and once for %s under the new master", msText(s.LaterMS))
	}
	text += fmt.Sprintf("; %d of %d calls failed", s.Failed, s.Attempts)
	if len(s.By) == 0 {
		return text
	}
	var by []string
	for _, code := range slices.Sorted(maps.Keys(s.By)) {
		by = append(by, fmt.Sprintf("%s %d", format.Clean(code), s.By[code]))
	}
	return text + " (" + strings.Join(by, ", ") + ")"
}

func msText(ms float64) string {
	if ms < 1000 {
		return fmt.Sprintf("%.0fms", ms)
	}
	return fmt.Sprintf("%.2fs", ms/1000)
}

func sessionsText(r rehearse.Report) string {
	lived := r.Seen - len(r.Expired) - r.Closed
	text := ofOthers(r.Seen, "%d of %d still open, %d expired, %d closed", lived, r.Seen, len(r.Expired), r.Closed)
	if lived > 0 {
		text += fmt.Sprintf("; time left: at least %.0f%% of the ttl, median %.0f%%", 100*r.LeastShare, 100*r.HalfShare)
	}
	return text
}

// ofOthers formats a text about other callers' sessions, holds or waiters.
func ofOthers(n int, format string, args ...any) string {
	if n == 0 {
		return "none besides its own"
	}
	return fmt.Sprintf(format, args...)
}

func ownText(o rehearse.Own) string {
	state := "always safe"
	switch {
	case o.Expired:
		state = "expired"
	case o.Jeopardy:
		state = "in jeopardy for a while"
	}
	lock := "kept"
	if !o.LockKept {
		lock = "lost"
	}
	return fmt.Sprintf("sessions %s, lock %s, %d of %d waiters kept their positions", state, lock, o.InOrder, o.Waiters)
}
