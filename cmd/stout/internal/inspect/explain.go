package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

// explained is the answer of stout explain, as printed with -o json.
type explained struct {
	Lock      lockapi.Lock           `json:"lock"`
	Sessions  []lockapi.SessionState `json:"sessions"` // sessions of the holders that the caller may read
	Deadlocks []lockapi.Deadlock     `json:"deadlocks"`
	History   lockapi.History        `json:"history"`

	left  map[string]string // a sentence about each holder's session, by id
	stale bool              // any replica may have answered, even without a master
}

type explainer struct{ *app.App }

func (a *explainer) command() app.Command {
	var last int
	return app.Command{
		Use: "explain PATH", Short: "Explain the state of a lock and how it came about", SuggestFor: "why who history describe info",
		Long: `Explains the lock at PATH in plain sentences: its holders with their sessions,
since when, and the time left of each lease; the queue; what would happen if the
holder died now; and the earlier holders, with the reason why each lost the
lock. It also shows the writers of the file at PATH.

The history comes from the replicas, which keep the most recent events
of the cell: from the one that answers, and from servers named by URL that
remember more. The answer shows how far back it reaches.`,
		Exits: exit.Reads, Complete: a.CompletePath(), Check: app.ValidPath,
		Example: `  stout explain /jobs/nightly
  stout explain /jobs/nightly --last 20`,
		Flags: func(f *pflag.FlagSet) {
			a.AddStale(f)
			f.IntVar(&last, "last", 5, "show at most this `number` of earlier holders and writes")
		},
		Run: func(ctx context.Context, args []string) error {
			if last < 0 || last > mostLast {
				return exit.Usagef("--last is %d; it must be from 0 to %d", last, mostLast)
			}
			return a.orStale(a.explainPath(ctx, args[0], last, true))
		},
	}
}

// mostLast limits the earlier holders. One takes up to three events.
const mostLast = lockapi.MaxListLimit / 4

// explainPath explains the lock at a path, with the history that the answering
// replica or, with everywhere, any replica keeps.
func (a *explainer) explainPath(ctx context.Context, path string, last int, everywhere bool) error {
	opts := a.ReadOptions()
	e := explained{Sessions: []lockapi.SessionState{}, Deadlocks: []lockapi.Deadlock{}, left: map[string]string{}, stale: a.Options.Stale}
	var err error
	if e.Lock, err = a.Client.ReadLock(ctx, path, append(opts, client.Waiters(lockapi.MaxWaiters))...); err != nil {
		return err
	}
	if err = a.readPast(ctx, &e, path, last, everywhere); err != nil {
		return err
	}
	if err := a.readHolders(ctx, &e, opts); err != nil {
		return err
	}
	if e.Lock.Waiters > 0 {
		all, err := a.Admin.Deadlocks(ctx, opts...)
		if err != nil {
			return err
		}
		for _, d := range all {
			if slices.ContainsFunc(d.Links, func(l lockapi.DeadlockLink) bool { return l.Path == path }) {
				e.Deadlocks = append(e.Deadlocks, d)
			}
		}
	}
	if a.UI.JSON {
		return a.UI.Object(e)
	}
	if e.stale {
		a.UI.Note("answered by any replica: it may be out of date")
	}
	a.printHolders(&e)
	a.printWaiters(&e)
	if len(e.Deadlocks) > 0 {
		a.UI.Printf("\n")
		(&sessions{a.App}).printDeadlocks(e.Deadlocks)
	}
	if text := whatIf(&e); text != "" {
		a.UI.Printf("\n")
		a.UI.Text(text)
	}
	a.printPast(&e, last)
	return nil
}

// readPast reads the history of a path: a first part that usually suffices, or
// all available events if it does not.
func (a *explainer) readPast(ctx context.Context, e *explained, path string, last int, everywhere bool) (err error) {
	if last == 0 || !everywhere { // for 0, only the holder's waiting time is needed
		e.History, err = a.Admin.History(ctx, path, max(4, 4*last))
		return err
	}
	e.History, err = a.remembered(ctx, path, 4*last)
	if err != nil || !e.History.More {
		return err
	}
	ends := 0
	for i := range e.History.Events {
		if e.past(i) != "" {
			ends++
		}
	}
	if ends < last {
		e.History, err = a.remembered(ctx, path, lockapi.MaxListLimit)
	}
	return err
}

// orStale adds advice to the error of a cell without a master.
func (a *explainer) orStale(err error) error {
	if err == nil || a.Options.Stale {
		return err
	}
	f := a.Explain(err)
	if f.Code == exit.NoMaster {
		f.Hint("--stale lets any replica answer, even without a master; the answer may be out of date")
	}
	return f
}

// readHolders reads the time left of the first holders' sessions, if the caller
// may observe them.
func (a *explainer) readHolders(ctx context.Context, e *explained, opts []client.ReadOption) error {
	for _, h := range e.Lock.Holders[:min(len(e.Lock.Holders), mostHolders)] {
		if _, asked := e.left[h.Session]; asked {
			continue
		}
		s, err := a.Admin.ReadSession(ctx, h.Session, opts...)
		switch {
		case errors.Is(err, client.ErrSessionNotFound):
			e.left[h.Session] = "Its session has just ended."
		case ask.IsDenial(err):
			e.left[h.Session] = "The time left of its session is visible only with the right to observe the cell."
		case err != nil:
			return err
		case s.LeaseRemainingMS == nil:
			e.left[h.Session] = fmt.Sprintf("Only the master knows the time left of its session; its ttl is %s.", format.MS(s.TTLMS))
			e.Sessions = append(e.Sessions, s)
		default:
			e.left[h.Session] = fmt.Sprintf("Its session has %s of %s left.", seconds(*s.LeaseRemainingMS), format.MS(s.TTLMS))
			e.Sessions = append(e.Sessions, s)
		}
	}
	return nil
}

func (a *explainer) printHolders(e *explained) {
	l := e.Lock
	head := a.UI.Out.Bold(format.Clean(l.Path))
	switch n := len(l.Holders) + l.MoreHolders; {
	case n == 0 && l.DelayRemainingMS > 0:
		a.UI.Printf("%s is not held, but in its lock-delay for another %s.\n", head, seconds(l.DelayRemainingMS))
		a.UI.Indent("The session of its last holder expired; that program may still be running.")
	case n == 0:
		a.UI.Printf("%s is free.\n", head)
	case n == 1:
		h := l.Holders[0]
		a.UI.Printf("%s is held by %s since %s, for %s.\n", head, format.Clean(h.SessionName), clock(h.GrantedAt), format.Since(h.GrantedAt))
	case l.Limit > 0:
		a.UI.Printf("%s is shared by %d of at most %d holders.\n", head, n, l.Limit)
	default:
		a.UI.Printf("%s is shared by %d holders.\n", head, n)
	}
	shown := l.Holders[:min(len(l.Holders), mostHolders)]
	for _, h := range shown {
		name := ""
		if len(shown) > 1 {
			name = fmt.Sprintf("%s since %s, for %s: ", format.Clean(h.SessionName), clock(h.GrantedAt), format.Since(h.GrantedAt))
		}
		text := name + fmt.Sprintf("Token %d, %s, session %s%s. ", h.Token, format.Clean(string(h.Mode)), format.Clean(h.Session), ownedBy(h.Principal, h.SessionMeta))
		if waited := e.waited(h.Token); waited != nil {
			text += fmt.Sprintf("It waited %s for it. ", format.MS(*waited))
		}
		a.UI.Indent(text + e.left[h.Session])
	}
	if more := len(l.Holders) - len(shown) + l.MoreHolders; more > 0 {
		a.UI.Indent(fmt.Sprintf("And %s more.", format.Plural(more, "holder")))
	}
}

// waited returns how long the grant with that token was waited for, in
// milliseconds; nil if unknown or immediate.
func (e *explained) waited(token uint64) *int64 {
	for _, p := range e.History.Events {
		if p.Type == lockapi.EventLockAcquired && p.Token == token {
			return p.WaitedMS
		}
	}
	return nil
}

func ownedBy(principal string, meta map[string]string) string {
	text := ""
	if principal != "" {
		text += " of " + format.Clean(principal)
	}
	if len(meta) > 0 {
		text += ", " + metaText(meta)
	}
	return text
}

func (a *explainer) printWaiters(e *explained) {
	l := e.Lock
	switch {
	case l.Waiters == 0 && l.State == lockapi.StateFree:
		return
	case l.Waiters == 0:
		a.UI.Printf("\nIts queue is empty.\n")
		return
	case l.Waiters == 1:
		a.UI.Printf("\n1 session waits for it:\n")
	default:
		a.UI.Printf("\n%d sessions wait for it:\n", l.Waiters)
	}
	shown := l.Queue[:min(len(l.Queue), mostHolders)]
	for _, w := range shown {
		a.UI.Hanging(ui.Indentation, fmt.Sprintf("%d.", w.Position), fmt.Sprintf("%s since %s, for %s; %s, session %s%s", format.Clean(w.SessionName)+among(w.Set), clock(w.Since), format.MS(w.WaitingMS),
			format.Clean(string(w.Mode)), format.Clean(w.Session), ownedBy(w.Principal, w.SessionMeta)))
	}
	if more := l.Waiters - len(shown); more > 0 {
		a.UI.Indent(fmt.Sprintf("and %d more; stout locks %s shows them", more, format.Clean(l.Path)))
	}
}

// whatIf describes what would happen if the holder died now, or at the end of
// the lock-delay.
func whatIf(e *explained) string {
	l := e.Lock
	holders := len(l.Holders) + l.MoreHolders
	switch {
	case holders == 0 && l.DelayRemainingMS > 0:
		return fmt.Sprintf("After the lock-delay, %s.", nextHolders(l, holders, "will"))
	case holders == 0 && len(l.Queue) > 0 && l.Queue[0].Set > 0:
		return fmt.Sprintf("The lock is free, and kept for %s, which gets it%s.", format.Clean(l.Queue[0].SessionName), onceAllFree(l.Queue[0].Set))
	case holders == 0:
		return ""
	}
	h, holder := l.Holders[0], "the holder"
	if holders > 1 {
		holder = "the first holder"
	}
	text := fmt.Sprintf("If %s died now, its session would expire after its ttl", holder)
	if e.stale { // without a master no session expires
		text += ", counted from the next election if the cell has no master now"
	}
	for _, s := range e.Sessions {
		if s.ID == h.Session && s.LeaseRemainingMS != nil {
			text = fmt.Sprintf("If %s died now, its session would expire in about %s", holder, seconds(*s.LeaseRemainingMS))
		}
	}
	if h.LockDelayMS > 0 {
		text += fmt.Sprintf(", the lock would stay blocked for its lock-delay of %s", format.MS(h.LockDelayMS))
	}
	return text + ", and then " + nextHolders(l, holders-1, "would") + "."
}

// nextHolders describes the waiters that get a lock with so many remaining
// holders. will is "will" or "would".
func nextHolders(l lockapi.Lock, others int, will string) string {
	switch {
	case l.Waiters == 0 && others > 0:
		return "the others " + will + " still hold it"
	case l.Waiters == 0:
		return "the lock " + will + " be free"
	case len(l.Queue) == 0:
		return "the first waiter " + will + " get it"
	}
	first := l.Queue[0]
	if others > 0 && (first.Mode == lockapi.Exclusive || l.Mode == lockapi.Exclusive) {
		return fmt.Sprintf("%s %s still wait for the other %s", format.Clean(first.SessionName), will, format.Plural(others, "holder"))
	}
	together := 1
	for together < len(l.Queue) && first.Set+l.Queue[together].Set == 0 && first.Mode == lockapi.Shared && l.Queue[together].Mode == lockapi.Shared && (l.Limit == 0 || int64(others+together) < l.Limit) {
		together++
	}
	if together > 1 {
		return fmt.Sprintf("%s and the next %d waiters %s get it together", format.Clean(first.SessionName), together-1, will)
	}
	return format.Clean(first.SessionName) + " " + will + " get it" + onceAllFree(first.Set)
}

// onceAllFree is the condition of a waiter for several locks.
func onceAllFree(locks int) string {
	if locks == 0 {
		return ""
	}
	return fmt.Sprintf(" once all %d locks that it waits for are free", locks)
}

// printPast prints the earlier holders and the writers of the file, newest
// first.
func (a *explainer) printPast(e *explained, last int) {
	var lines [][2]string
	var masters []lockapi.PastEvent // since the last line
	shown := 0
	whole := last > 0 // everything known is shown
	for i, p := range e.History.Events {
		if p.Type == lockapi.EventMasterChanged {
			masters = append(masters, p)
			continue
		}
		text := e.past(i)
		if text == "" {
			continue
		}
		if shown == last {
			whole = false
			break
		}
		if m := mastersText(masters); m[1] != "" {
			lines = append(lines, m)
		}
		masters = nil
		lines = append(lines, [2]string{clock(p.At), text})
		shown++
	}
	if m := mastersText(masters); whole && m[1] != "" {
		lines = append(lines, m)
	}
	if len(lines) > 0 {
		a.UI.Printf("\nHistory, newest first:\n")
	}
	for _, l := range lines {
		a.UI.Hanging(ui.Indentation, a.UI.Out.Faint(l[0]), l[1])
	}
	reach := "the replicas have no history yet"
	if s := e.History.Since; s != nil {
		reach = "the replicas' history reaches back to " + clock(*s)
	}
	short := e.History.More && shown < last // the replicas remember more, which was not read
	asked := format.Plural(len(e.History.Events), "event")
	switch {
	case shown == 0 && short:
		a.UI.Printf("\n")
		a.UI.Text(fmt.Sprintf("Its last %s include no earlier holder; %s.", asked, reach))
	case short:
		a.UI.Note("its last %s include no other holders; %s (revision %d)", asked, reach, e.History.Oldest)
	case shown == 0 && last > 0:
		a.UI.Printf("\n")
		a.UI.Text(fmt.Sprintf("No earlier holder is known: %s.", reach))
	case last > 0:
		a.UI.Note("%s (revision %d)", reach, e.History.Oldest)
	}
}

// mastersText describes consecutive changes of master, newest first.
func mastersText(all []lockapi.PastEvent) [2]string {
	switch len(all) {
	case 0:
		return [2]string{}
	case 1:
		return [2]string{clock(all[0].At), fmt.Sprintf("%s became master, in epoch %d", format.Clean(all[0].Master), all[0].Epoch)}
	}
	return [2]string{clock(all[0].At), fmt.Sprintf("%s became master, in epoch %d, after %d changes since %s", format.Clean(all[0].Master), all[0].Epoch, len(all), clock(all[len(all)-1].At))}
}

// past describes an event that ended a hold or wrote the file; "" for other
// events.
func (e *explained) past(i int) string {
	p := e.History.Events[i]
	switch p.Type {
	case lockapi.EventLockReleased:
		text := fmt.Sprintf("%s (token %d", format.Clean(p.SessionName), p.Token)
		if p.Principal != "" {
			text += ", " + format.Clean(p.Principal)
		}
		text += ")"
		if p.HeldMS != nil {
			text += " held it for " + format.MS(*p.HeldMS)
		}
		return text + "; " + e.why(p)
	case lockapi.EventFileDeleted:
		if p.Reason == lockapi.ReasonSessionEnded {
			return "the file ended with its session"
		}
		return "the file was deleted" + by(p)
	case lockapi.EventFileCreated, lockapi.EventFileChanged:
		return fmt.Sprintf("the file was written%s: %s, generation %d", by(p), format.Bytes(int64(p.Size)), p.Generation)
	}
	return ""
}

func by(p lockapi.PastEvent) string {
	if p.By == "" {
		return ""
	}
	return " by " + format.Clean(p.By)
}

func (e *explained) why(p lockapi.PastEvent) string {
	switch p.Reason {
	case lockapi.ReasonReleased:
		return "released"
	case lockapi.ReasonForced:
		return "released by force" + by(p)
	case lockapi.ReasonSessionClosed:
		if p.By == p.Principal && (p.By == "" || p.By == lockapi.PrincipalAnonymous) {
			return "its session was closed, by its program or by an operator"
		}
		if p.By == p.Principal {
			return "closed"
		}
		return "closed" + by(p)
	case lockapi.ReasonSessionExpired:
		if p.SilentMS == nil {
			return fmt.Sprintf("expired: no keepalive, ttl %s", format.MS(p.TTLMS))
		}
		return fmt.Sprintf("expired: last keepalive %s%s earlier, ttl %s", e.atLeast(p), seconds(*p.SilentMS), format.MS(p.TTLMS))
	}
	return format.Clean(p.Reason)
}

// atLeast qualifies a session's silence if its master took office at its
// beginning, because that master knows no earlier keepalive.
func (e *explained) atLeast(end lockapi.PastEvent) string {
	lastSeen := end.At.Add(-time.Duration(*end.SilentMS) * time.Millisecond)
	for _, p := range e.History.Events {
		if p.Type == lockapi.EventMasterChanged && p.At.Before(end.At) && lastSeen.Sub(p.At).Abs() < time.Second {
			return "at least "
		}
	}
	return ""
}

// seconds formats milliseconds, with tenths if they matter.
func seconds(ms int64) string {
	if ms < 100_000 {
		return fmt.Sprintf("%.1fs", float64(ms)/1000)
	}
	return format.MS(ms)
}

func clock(t time.Time) string { return format.Clock(t.Local(), time.Now()) }
