package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/bench/internal/drive"
	"github.com/stoutlock/stout/test/bench/internal/host"
	"github.com/stoutlock/stout/test/bench/internal/report"
)

const (
	// renewalLocks is how many locks and how many files the cell has where no
	// number is named.
	renewalLocks = 100_000
	// renewalLoad are the sessions that take and release locks of their own all
	// the time, each with a client of its own.
	renewalLoad = 64
)

// runRenewal fills a cell with n locks and n files, has sessions take and release
// locks as fast as they can, and does meanwhile what an operator does: a backup,
// a transfer, and a new machine for each of the three.
func runRenewal(ctx context.Context, b *bench) error {
	ns := b.sessions
	if len(ns) == 0 {
		ns = []int{renewalLocks}
	}
	for _, n := range ns {
		if err := b.renew(ctx, n); err != nil {
			return fmt.Errorf("renewal, %d: %w", n, err)
		}
	}
	return nil
}

// renew makes one row for each thing that is done, on a cell that is not needed
// afterwards.
func (b *bench) renew(ctx context.Context, n int) (err error) {
	own := *b
	if own.cell, err = host.Open(ctx, host.Options{Binary: b.stoutd, Args: b.stoutdArgs}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.cell.Close()) }()
	r := &renewal{bench: &own, n: n}
	err = r.run(ctx)
	b.report.Rows = append(b.report.Rows, r.rows...)
	return err
}

// renewal is a cell under load whose members change.
type renewal struct {
	*bench
	n    int
	rows []report.Row

	caller  drive.Caller
	workers []*shift
}

// shift is one of those who make the load.
type shift struct {
	session drive.Session
	path    string
	lost    atomic.Bool // its session
}

func (r *renewal) run(ctx context.Context) error {
	joiners, err := r.cell.Join("r4", "r5", "r6")
	if err != nil {
		return err
	}
	r.caller = drive.NewCaller(r.cell.Way())
	defer r.caller.Close()
	if err := r.fill(ctx); err != nil {
		return err
	}
	f := &field{}
	if f.clients, err = drive.Clients(drive.SDK, r.cell.Way(), renewalLoad, false); err != nil {
		return err
	}
	defer f.close(ctx)
	if err := f.openSessions(ctx, r.bench); err != nil {
		return err
	}
	for i, s := range f.sessions {
		r.workers = append(r.workers, &shift{session: s, path: nodePath("renewal/load", i)})
	}
	return r.steps(ctx, joiners)
}

// fill makes n locks that are held, and n files of 1 KiB.
func (r *renewal) fill(ctx context.Context) error {
	began := time.Now()
	ids, err := openMany(ctx, r.caller, (r.n+perSession-1)/perSession, func() time.Duration { return longTTL })
	if err != nil {
		return err
	}
	err = drive.Each(r.n, func(i int) error {
		path := fmt.Sprintf("%s/bench/renewal/locks/%d/%d", lockapi.RouteLocks, i/perSession, i%perSession)
		return r.caller.Call(ctx, http.MethodPut, path, ask(ids[i/perSession], 0, 0, false), nil)
	})
	if err != nil {
		return err
	}
	writers := &site{cell: r.cell, writers: &field{}, files: r.n}
	if writers.writers.clients, err = drive.Clients(drive.HTTP, r.cell.Way(), fillers, false); err != nil {
		return err
	}
	defer writers.writers.close(ctx)
	if err := writers.writers.openSessions(ctx, r.bench); err != nil {
		return err
	}
	if err := writers.write(ctx, r.n); err != nil {
		return err
	}
	r.progress.note("renewal: %d locks and %d files after %.1f s", r.n, r.n, time.Since(began).Seconds())
	return nil
}

// steps does what an operator does, one thing after the other.
func (r *renewal) steps(ctx context.Context, joiners []*host.Joiner) error {
	nothing := func(ctx context.Context) error { return pause(ctx, r.duration) }
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"nothing", nothing},
		{"backup", r.backup},
		{"nothing", nothing},
		{"transfer", r.transfer},
		{"add " + joiners[0].ID, func(ctx context.Context) error { return r.add(ctx, joiners[0]) }},
		{"nothing", nothing},
		{"replace all three", func(ctx context.Context) error { return r.replace(ctx, joiners) }},
		{"nothing", nothing},
	}
	for _, s := range steps {
		if err := r.step(ctx, s.what, s.do); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// step does one thing while the load goes on, from a moment before to one after.
func (r *renewal) step(ctx context.Context, what string, do func(context.Context) error) error {
	r.progress.step("renewal: %s", what)
	first, err := r.epoch(ctx)
	if err != nil {
		return err
	}
	out := &report.Renewal{What: what}
	h := newHistogram()
	loading, stop := context.WithCancel(ctx)
	var (
		mu     sync.Mutex
		all    sync.WaitGroup
		served time.Time // when the cell last did something
		gap    time.Duration
		last   error
	)
	for _, w := range r.workers {
		once := cycle(w.session, w.path)
		all.Go(func() {
			for loading.Err() == nil {
				began := time.Now()
				err := once(loading)
				now := time.Now()
				mu.Lock()
				switch {
				case err == nil:
					_ = h.RecordValue(now.Sub(began).Microseconds()) // fails only beyond an hour
					if !served.IsZero() {
						gap = max(gap, now.Sub(served))
					}
					served = now
				case loading.Err() == nil:
					out.Errors++
					last = err
					if errors.Is(err, client.ErrSessionExpired) {
						w.lost.Store(true)
					}
				}
				mu.Unlock()
				if err != nil {
					_ = pause(loading, probePause) // its end is the loop's
				}
			}
		})
	}
	err = pause(ctx, r.warmup)
	if err == nil {
		began := time.Now()
		err = do(ctx)
		out.Seconds = time.Since(began).Seconds()
	}
	err = errors.Join(err, pause(ctx, r.warmup))
	stop()
	all.Wait()
	if err != nil {
		return err
	}
	after, err := r.epoch(ctx)
	if err != nil {
		return err
	}
	out.Under, out.Gap, out.Masters = latencies(h), report.Milliseconds(gap), after-first
	for _, w := range r.workers {
		if w.lost.Load() {
			out.Lost++
		}
	}
	if last != nil {
		out.Error = last.Error()
	}
	r.rows = append(r.rows, report.Row{Work: "renewal", Via: drive.SDK, Sessions: r.n, Runs: 1, Renewal: out})
	r.progress.note("renewal: %s: %.1f s, p50/p99/max %.1f/%.1f/%.0f ms, longest gap %.0f ms, %d errors", what,
		out.Seconds, out.Under.P50, out.Under.P99, out.Under.Max, out.Gap, out.Errors)
	return nil
}

// backup reads a backup to its end, and no further: whether it is whole is its
// reader's to check.
func (r *renewal) backup(ctx context.Context) error {
	c, err := r.cell.Way().SDK()
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Backup(ctx, io.Discard)
	return err
}

// transfer hands mastership to another member.
func (r *renewal) transfer(ctx context.Context) error {
	return r.caller.Call(ctx, http.MethodPost, lockapi.RouteTransfer, lockapi.TransferRequest{}, nil)
}

// replace adds the joiners that are not members yet, and removes who was there
// before them: the master last, so that mastership changes hands once.
func (r *renewal) replace(ctx context.Context, joiners []*host.Joiner) error {
	before, err := r.members(ctx)
	if err != nil {
		return err
	}
	var olds []string
	for _, m := range before.Members {
		switch {
		case m.ID == joiners[0].ID:
		case m.Role == lockapi.RoleMaster:
			olds = append(olds, m.ID)
		default:
			olds = append([]string{m.ID}, olds...)
		}
	}
	for i, j := range joiners {
		if i > 0 { // the first one is in already
			if err := r.add(ctx, j); err != nil {
				return err
			}
		}
		if err := r.change(ctx, http.MethodDelete, "/"+olds[i], nil); err != nil {
			return err
		}
	}
	return nil
}

// add makes a joiner a member and waits until it votes and is well.
func (r *renewal) add(ctx context.Context, j *host.Joiner) error {
	request, err := j.Request(ctx)
	if err != nil {
		return err
	}
	if err := r.change(ctx, http.MethodPost, "", request); err != nil {
		return err
	}
	return until(ctx, func() (bool, error) {
		now, err := r.members(ctx)
		if err != nil {
			return false, nil // between two masters
		}
		for _, m := range now.Members {
			if m.ID == j.ID {
				return m.Suffrage == lockapi.SuffrageVoter && m.Healthy, nil
			}
		}
		return false, nil
	})
}

func (r *renewal) members(ctx context.Context) (now lockapi.Members, err error) {
	return now, r.caller.Call(ctx, http.MethodGet, lockapi.RouteMembers, nil, &now)
}

// change asks for a change of the members until it is made. A change whose
// outcome is unknown is asked for again: by then it may have been made, which the
// answer says.
func (r *renewal) change(ctx context.Context, method, target string, in any) error {
	return until(ctx, func() (bool, error) {
		err := r.caller.Call(ctx, method, lockapi.RouteMembers+target, in, nil)
		refused := new(lockapi.Error)
		if !errors.As(err, &refused) {
			return err == nil, nil
		}
		switch refused.Code {
		case lockapi.CodeBusy, lockapi.CodeNoMaster, lockapi.CodeOutcomeUnknown:
			return false, nil
		case lockapi.CodeNotFound: // removed by the try before
			return method == http.MethodDelete, nil
		}
		return false, err
	})
}
