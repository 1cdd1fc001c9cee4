package cli

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

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/cmd/stout/internal/rehearse"
	"github.com/stoutlock/stout/lockapi"
)

// exitNotAsItShould is that of a rehearsal that was done, and had something lost
// or near it.
const exitNotAsItShould = 5

// rehearsalPath is below which a rehearsal has its locks unless somebody says.
const rehearsalPath = "/stout-rehearsal"

func (a *app) rehearsals() runner {
	return group{
		use: "rehearse", short: "Rehearse what is to work when it has to", like: "drill gameday exercise chaos", say: "say what to rehearse",
		sub: []runner{&rehearseFailover{app: a}},
	}
}

type rehearseFailover struct {
	*app
	to, path     string
	yes          bool
	lead, settle time.Duration
}

func (r *rehearseFailover) command() command {
	return command{
		use: "failover", short: "Change the master, and look what becomes of sessions and waiters", like: "transfer fail-over", endless: true,
		long: `Says what speaks against a change of master and what it will do, asks, and then
changes it while looking: at the time without service, by calls of its own that
are made in turn to all replicas and never repeated; at each session, how much
of it was left when service was back; at each waiter, whether it kept its place.
Its own lock, waiters and sessions are below ` + rehearsalPath + `, and are gone
when it ends, also by Ctrl-C.

It is a no-go, and nothing is changed, unless all members that vote are well and
close behind, the cell bears one more failure, and no change of members is under
way. Sessions that may come near their end are named.

Who does it needs the right to operate and to observe the cell, and to lock and
read below --path.`,
		exits: readExits("done, and all is as it should be", "a no-go, or the cell said no") + ", 5 done, and something was lost, or near it",
		example: `  stout rehearse failover
  stout rehearse failover --to r2 --yes -o json`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&r.to, "to", "", "`id` of the replica that becomes master; else the cell chooses")
			f.StringVar(&r.path, "path", rehearsalPath, "have its own locks below this `path`")
			addYes(f, &r.yes)
			f.DurationVar(&r.lead, "before", rehearse.Lead, "look for this `duration` before")
			f.DurationVar(&r.settle, "after", rehearse.Settle, "look for this `duration` after")
		},
		values: map[string]completer{"to": r.completeReplica()},
	}
}

func (r *rehearseFailover) check() error {
	if err := validPath(r.path + "/x/held"); err != nil {
		return err
	}
	for name, d := range map[string]time.Duration{"--before": r.lead, "--after": r.settle} {
		if d < 500*time.Millisecond || d > 10*time.Minute {
			return usagef("%s is %v; it is within 500ms and 10m", name, d)
		}
	}
	return nil
}

func (r *rehearseFailover) run(ctx context.Context, _ []string) error {
	a := r.app
	if err := r.check(); err != nil {
		return err
	}
	if !r.yes {
		if err := a.someoneToAsk("a rehearsal changes the master"); err != nil {
			return err
		}
	}
	run := rehearse.Rehearsal{
		Client: a.client, Asker: a.asker(),
		Path: r.path, To: r.to, Lead: r.lead, Settle: r.settle,
		Doing: func(what string) { a.ui.progress(what, what) },
	}
	run.Asker.Via = &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 128, TLSHandshakeTimeout: 2 * time.Second,
		TLSClientConfig: a.tlsConfig().Clone(),
	}
	looking, cancel := a.bounded(ctx)
	defer cancel()
	before, err := run.Look(looking)
	if err != nil {
		return err
	}
	if !ask.InOffice(before.Cell) {
		return a.noMaster(before.Cell)
	}
	if run.URLs, err = a.proberURLs(looking, before.Cell); err != nil {
		return err
	}
	if err := run.Rights(looking, before); err != nil {
		return err
	}
	concerns := rehearse.Beforehand(before)
	if !rehearse.Go(concerns) {
		return a.noGo(concerns)
	}
	if err := a.warn(r.yes, "a rehearsal changes the master", plan(before, concerns), "do it?"); err != nil {
		return err
	}
	if r.yes {
		for _, c := range concerns {
			a.ui.note("%s", c.What)
		}
	}
	signals, stop := child.Signals()
	defer stop()
	report, err := unlessSignalled(ctx, signals, nil, func(ctx context.Context) (rehearse.Report, error) { return run.Run(ctx, before) })
	a.ui.progress("", "")
	if late, ok := errors.AsType[*rehearse.NoGo](err); ok {
		return a.noGo(late.Concerns)
	}
	if f, ok := errors.AsType[*failure](err); ok {
		interrupted(f, report)
	}
	if err != nil {
		return err
	}
	err = answer(a.ui, rehearsed{true, concerns, &report}, nil, func(rehearsed) { a.showRehearsal(report) })
	if err == nil && report.Verdict != rehearse.Passed {
		return &failure{code: exitNotAsItShould}
	}
	return err
}

// interrupted says what a rehearsal leaves that a signal has ended.
func interrupted(f *failure, report rehearse.Report) {
	f.message = "interrupted; what was its own in the cell is gone"
	if report.Left != nil {
		f.message = fmt.Sprintf("interrupted; its own sessions could not be closed (%s), and expire by themselves", safe(report.Left.Error()))
	}
	if report.Changed {
		f.tell("the change of master was asked for already")
	} else {
		f.tell("no change of master was asked for")
	}
	f.hint("stout status shows who is master")
}

// rehearsed is the answer in JSON.
type rehearsed struct {
	Go       bool               `json:"go"`
	Concerns []rehearse.Concern `json:"concerns"`
	Report   *rehearse.Report   `json:"report,omitempty"`
}

// noGo is the end of a rehearsal that is better not begun.
func (a *app) noGo(concerns []rehearse.Concern) error {
	out := &failure{code: exitFailed, message: "no-go: nothing was changed"}
	if a.ui.json {
		if err := a.ui.object(rehearsed{false, concerns, nil}); err != nil {
			return err
		}
	}
	for _, c := range concerns {
		if c.NoGo {
			out.tell("%s", c.What)
		}
	}
	return out.hint("stout status and stout doctor show what is wrong, and what to do")
}

// plan is what will be done, in sentences.
func plan(b *rehearse.Before, concerns []rehearse.Concern) string {
	to := "another replica"
	if b.To != "" {
		to = clean(b.To)
	}
	what := fmt.Sprintf("Mastership will be handed over from %s to %s, in good order.", clean(b.Cell.Master.ID), to)
	text := fmt.Sprintf("Go: all members are well. %s Service may be missed for up to %s; calls wait or fail meanwhile, and %s and their locks stay.",
		what, human(b.Gap()), plural(len(b.Sessions), "session"))
	for _, c := range concerns {
		text += " Mind: " + safe(c.What) + "."
	}
	return text
}

// proberURLs are those that the prober calls: of the members that are well, else
// those that the client knows. One whose certificate is judged by another name than
// its host's is none of them.
func (a *app) proberURLs(ctx context.Context, cell lockapi.Cell) (urls []string, err error) {
	for _, r := range cell.Replicas {
		if r.Healthy && lockapi.ValidateMemberURL(r.URL) == nil && a.mayCall(r.URL) == nil {
			urls = append(urls, strings.TrimRight(r.URL, "/"))
		}
	}
	if len(urls) > 0 {
		return urls, nil
	}
	known, err := a.client.URLs(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range known {
		if !strings.Contains(u, " ") {
			urls = append(urls, u)
		}
	}
	if len(urls) == 0 {
		return nil, fmt.Errorf("no URL of a member can be called from here, and %s stands for addresses whose certificates are judged by a name; name the replicas by their URLs with --server", strings.Join(a.opts.servers, ", "))
	}
	return urls, nil
}

// showRehearsal shows what came of a rehearsal, the verdict first.
func (a *app) showRehearsal(r rehearse.Report) {
	p := a.ui.out
	verdict := map[string]string{
		rehearse.Passed: p.good.Render("passed"), rehearse.Look: p.warn.Render("look at it"), rehearse.Failed: p.fail.Render("failed"),
	}[r.Verdict]
	lines := [][2]string{
		{"verdict", verdict},
		{"master", fmt.Sprintf("%s in epoch %d, before %s in %d", clean(r.After.Master), r.After.Epoch, clean(r.Before.Master), r.Before.Epoch)},
		{"writes", serviceText(r.Writes)},
		{"reads", serviceText(r.Reads)},
		{"by the sdk", fmt.Sprintf("%s, %d failed; the slowest took %s", plural(r.Own.Calls, "call"), r.Own.Failed, msText(r.Own.Slowest))},
		{"sessions", sessionsText(r)},
		{"holds", ofOthers(r.Holds.Seen, "%d of %d kept, %d given back, %d gone with their sessions", r.Holds.Kept, r.Holds.Seen, r.Holds.Given, r.Holds.Lost)},
		{"waiters", ofOthers(r.Waiters.Seen, "%d of %d kept their places, %d got the lock, %d gave up, %d gone with their sessions, %d overtaken",
			r.Waiters.Kept, r.Waiters.Seen, r.Waiters.Granted, r.Waiters.Given, r.Waiters.Lost, len(r.Waiters.Overtaken))},
		{"of its own", ownText(r.Own)},
	}
	for _, l := range lines {
		a.ui.block(p.dim.Render(fmt.Sprintf("%-10s", l[0]))+"  ", fmt.Sprintf("%12s", ""), l[1])
	}
	for _, why := range r.Why {
		a.ui.printf("\n")
		a.ui.prose(safe(why) + ".")
	}
	a.showNear("NEAREST TO ITS END", r.Nearest)
	a.showNear("EXPIRED", r.Expired)
	for _, w := range r.Waiters.Overtaken {
		a.ui.note("overtaken: %s", w)
	}
}

// showNear shows sessions, and what they had left when service was back.
func (a *app) showNear(title string, all []rehearse.Near) {
	if len(all) == 0 {
		return
	}
	a.ui.printf("\n")
	a.ui.table([]column{left(title), left("NAME"), right("TTL"), right("LEFT")}, rows(all, func(n rehearse.Near) []string {
		return []string{clean(n.Session), clean(n.Name), millis(n.TTLMS), millis(n.LeftMS)}
	}))
}

// serviceText is about the time without service.
func serviceText(s rehearse.Service) string {
	text := fmt.Sprintf("none for %s, usually %s", msText(s.GapMS), msText(s.UsualMS))
	if s.LaterMS > max(s.GapMS, s.UsualMS) {
		text += fmt.Sprintf(", under the new master once for %s", msText(s.LaterMS))
	}
	text += fmt.Sprintf("; %d of %d calls failed", s.Failed, s.Attempts)
	if len(s.By) == 0 {
		return text
	}
	var by []string
	for _, code := range slices.Sorted(maps.Keys(s.By)) {
		by = append(by, fmt.Sprintf("%s %d", clean(code), s.By[code]))
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
	text := ofOthers(r.Seen, "%d of %d live, %d expired, %d closed meanwhile", lived, r.Seen, len(r.Expired), r.Closed)
	if lived > 0 {
		text += fmt.Sprintf("; at least %.0f%% of the ttl was left, half had %.0f%%", 100*r.LeastShare, 100*r.HalfShare)
	}
	return text
}

// ofOthers is a text about so many of others' sessions, holds or waiters.
func ofOthers(n int, format string, args ...any) string {
	if n == 0 {
		return "none but its own"
	}
	return fmt.Sprintf(format, args...)
}

func ownText(o rehearse.Own) string {
	state := "safe all the time"
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
	return fmt.Sprintf("sessions %s, lock %s, %d of %d waiters in their places", state, lock, o.InOrder, o.Waiters)
}
