// Package rehearse changes the master of a cell and measures the effect: the
// time without service, how near each session came to its end, and whether each
// waiter kept its queue position.
//
// Pure functions evaluate the observations: Assess decides whether to
// begin, Evaluate rates the result. Texts may contain foreign words: the caller
// must make them safe before it prints them.
package rehearse

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/lockapi"
)

// Rehearsal is one observed change of master.
type Rehearsal struct {
	Client *client.Client
	URLs   []string // of the replicas, for the prober
	Poller ask.Poller
	Path   string        // prefix of its own locks
	To     string        // the new master; empty for any
	Lead   time.Duration // how long it observes before the change
	Settle time.Duration // and after it
	Doing  func(string)  // called at each step

	changed bool // the change was requested
}

func (r *Rehearsal) admin() *admin.Admin { return admin.New(r.Client) }

const (
	// Lead and Settle are the defaults. A master takes back queue positions
	// that are not requested again within 5 s after its election, so Settle is
	// longer.
	Lead   = 3 * time.Second
	Settle = 7 * time.Second
	// officeTime is how long to wait for a new master.
	officeTime = 30 * time.Second
	lookTime   = 10 * time.Second
	mostAsked  = 20 // sessions to look up in the history
)

// Look reads what Assess needs.
func (r *Rehearsal) Look(ctx context.Context) (*Before, error) {
	b, err := r.glance(ctx)
	if err != nil || b.Cell.Master == nil {
		return b, err
	}
	for s, err := range r.admin().ListSessions(ctx) {
		if err != nil {
			return nil, err
		}
		b.Sessions = append(b.Sessions, s)
	}
	return b, nil
}

// glance is Look without the sessions, which may number thousands.
func (r *Rehearsal) glance(ctx context.Context) (b *Before, err error) {
	b = &Before{To: r.To}
	if b.Cell, err = r.admin().Cell(ctx); err == nil && b.Cell.Master != nil {
		b.Members, err = r.admin().Members(ctx)
	}
	return b, err
}

// NoGo is the error of a rehearsal that became unsafe before it changed
// anything.
type NoGo struct{ Warnings []Warning }

func (n *NoGo) Error() string {
	var all []string
	for _, c := range n.Warnings {
		all = append(all, c.What)
	}
	return "before anything was changed: " + strings.Join(all, "; ")
}

// still returns nil while the rehearsal remains safe: the operator may have
// taken time to agree, and the cell may have changed. A member that is behind
// gets some time to catch up, because the rehearsal's own calls may be the
// cause.
func (r *Rehearsal) still(ctx context.Context, b *Before) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	for tries := 0; ; tries++ {
		now, err := r.glance(ctx)
		if err != nil {
			return fmt.Errorf("before anything was changed: %w", err)
		}
		concerns := Assess(now)
		if was, is := b.Cell, now.Cell; is.Master != nil && is.Epoch != was.Epoch {
			concerns = append(concerns, Warning{true, fmt.Sprintf("mastership has changed: %s was master in epoch %d, now %s is in epoch %d", was.Master.ID, was.Epoch, is.Master.ID, is.Epoch)})
		}
		if Go(concerns) {
			return nil
		}
		if tries == 4 {
			return &NoGo{concerns}
		}
		if err := ask.Sleep(ctx, rest); err != nil {
			return err
		}
	}
}

// Run makes the change and returns the result. It always removes its own locks
// and sessions, if the cell can be reached. The error is a NoGo if the cell
// differs from b. With any other error, the report describes what is left
// behind.
func (r *Rehearsal) Run(ctx context.Context, b *Before) (report Report, err error) {
	path := strings.TrimRight(r.Path, "/") + "/" + strings.ToLower(rand.Text()[:12])
	if err := r.still(ctx, b); err != nil {
		return report, err
	}
	r.Doing("opening sessions of its own")
	mine, err := openOwn(ctx, r.Client, path)
	defer func() {
		r.Doing("cleaning up")
		if report.Left = mine.close(ctx); report.Left != nil {
			report.Why = append(report.Why, fmt.Sprintf("its own sessions could not be closed (%v) and will expire", report.Left))
		}
		report.Changed = err != nil && r.changed
	}()
	if err != nil {
		return report, fmt.Errorf("before anything was changed: %w", err)
	}
	begun := time.Now()
	p := &prober{ask: r.Poller, urls: r.URLs, session: mine.waiter.ID(), path: path + "/probe", begun: begun}
	w := &watcher{
		list:  func(ctx context.Context) iter.Seq2[lockapi.SessionState, error] { return r.admin().ListSessions(ctx) },
		begun: begun, but: []string{mine.holder.ID(), mine.waiter.ID()}, ends: map[string]time.Duration{},
	}
	running, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for _, run := range []func(context.Context){p.run, w.run, mine.work} {
		all.Go(func() { run(running) })
	}
	seen, err := r.act(ctx, b, p, w)
	if err != nil {
		return report, err
	}
	within, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if seen.Own, err = mine.outcome(within); err != nil {
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		seen.Notes = append(seen.Notes, err.Error())
	}
	seen.Reads, seen.Writes = p.attempts()
	return Evaluate(seen), nil
}

func (r *Rehearsal) act(ctx context.Context, b *Before, p *prober, w *watcher) (*Seen, error) {
	since := func() time.Duration { return time.Since(p.begun) }
	r.Doing("observing the cell for " + r.Lead.String())
	if err := ask.Sleep(ctx, r.Lead); err != nil {
		return nil, err
	}
	if err := r.still(ctx, b); err != nil {
		return nil, err
	}
	if err := w.look(ctx); err != nil {
		return nil, fmt.Errorf("before anything was changed: %w", err)
	}
	reads, writes := p.attempts()
	if why := cmp.Or(served("reads", reads), served("writes", writes)); why != "" {
		return nil, errors.New("before anything was changed: " + why)
	}
	s := &Seen{From: Office{b.Cell.Master.ID, b.Cell.Epoch}}
	s.Ends, s.Before = w.freeze()
	s.Change = since()
	r.Doing("changing the master")
	r.changed = true
	if _, err := r.admin().Transfer(ctx, r.To); err != nil && !errors.Is(err, client.ErrOutcomeUnknown) {
		return nil, err
	}
	if err := r.awaitOffice(ctx, s, since); err != nil {
		return nil, err
	}
	r.Doing("observing the cell for another " + r.Settle.String())
	if err := ask.Sleep(ctx, r.Settle); err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if err := w.look(within); err != nil {
		s.Notes = append(s.Notes, fmt.Sprintf("the sessions could not be listed at the end: %v", err))
	}
	s.After, s.End = w.last(), since()
	if cell, err := r.admin().Cell(within); err != nil {
		s.Notes = append(s.Notes, fmt.Sprintf("the master at the end could not be read: %v", err))
		s.Last = s.To
	} else if ask.InOffice(cell) {
		s.Last = Office{cell.Master.ID, cell.Epoch}
	}
	s.Gone = r.askWhy(within, s)
	return s, nil
}

// awaitOffice waits until a later office is open.
func (r *Rehearsal) awaitOffice(ctx context.Context, s *Seen, since func() time.Duration) error {
	within, cancel := context.WithTimeout(ctx, officeTime)
	defer cancel()
	for within.Err() == nil {
		cell, err := r.admin().Cell(within)
		if err == nil && ask.InOffice(cell) && cell.Epoch > s.From.Epoch {
			s.To, s.Office = Office{cell.Master.ID, cell.Epoch}, since()
			return nil
		}
		_ = ask.Sleep(within, 20*time.Millisecond)
	}
	return ctx.Err() // Evaluate reports a missing office
}

// askWhy returns why sessions with holds have ended, from the history of a
// lock.
func (r *Rehearsal) askWhy(ctx context.Context, s *Seen) map[string]string {
	out := map[string]string{}
	for id, one := range s.Before.Sessions {
		if _, lives := s.After.Sessions[id]; lives || len(one.Holds) == 0 || len(out) == mostAsked {
			continue
		}
		h, err := r.admin().History(ctx, one.Holds[0].Path, lockapi.MaxListLimit)
		if err != nil {
			continue
		}
		for _, e := range h.Events {
			if e.Type == lockapi.EventLockReleased && e.Session == id {
				out[id] = e.Reason
				break
			}
		}
	}
	return out
}

// served returns why all attempts failed, or "" if one succeeded.
func served(kind string, all []Attempt) string {
	why := "no attempt has ended"
	for _, a := range all {
		if a.Failed == "" {
			return ""
		}
		why = a.Failed
	}
	return fmt.Sprintf("all of %d %s failed (%s)", len(all), kind, why)
}
