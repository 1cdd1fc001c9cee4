package master

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stoutlock/stout/internal/faultpoint"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/replica/state"
)

// errNotLeading ends an attempt to open an office.
var errNotLeading = errors.New("this replica no longer leads in that term")

// open makes this replica the master for raft term, in the order that the lease
// demands: barrier, wait, entry.
func (m *Master) open(ctx context.Context, term uint64) (*office, error) {
	if h := m.opts.Progress.Hangs(m.opts.LeaseTerm); h != nil {
		return nil, h
	}
	begun := m.opts.Clock()
	barrier, cancel := context.WithTimeout(ctx, stalledAfter)
	defer cancel()
	if err := m.log.Barrier(barrier); err != nil {
		return nil, fmt.Errorf("barrier: %w", err)
	}
	caughtUp := m.opts.Clock()
	// Read after the barrier: now the state shows the longest lease that
	// any earlier master could have had.
	waited, err := m.outwait(ctx, term, m.log.State().Office)
	if err != nil {
		return nil, err
	}
	p := m.opts.Clock() // the lease counts from here
	outcome, err := m.await(ctx, term, m.log.Submit(state.Batch{
		LeaseMS:  m.opts.leaseMS(),
		Commands: []state.Command{{Time: time.Now().UnixNano(), Operation: &state.OpenOffice{Master: m.opts.ID, Term: term}}},
	}))
	if err != nil {
		return nil, fmt.Errorf("open the office: %w", err)
	}
	if !outcome.Accepted {
		return nil, fmt.Errorf("open the office: the entry came into raft term %d: %w", outcome.Term, errNotLeading)
	}
	faultpoint.Hit(faultpoint.OfficeOpened)
	m.opening.Begin()
	defer m.opening.End()
	o := m.newOffice(term, outcome, p)
	m.vitals.barrier.Observe(caughtUp - begun)
	m.vitals.outwaited.Observe(waited)
	m.vitals.opening.Observe(m.opts.Clock() - p)
	o.logger.Info().Uint64("term", term).Dur("waited_ms", waited).Dur("opened_in_ms", m.opts.Clock()-begun).
		Int("sessions", o.log.State().SessionCount()).Msg("elected: this replica is the master")
	m.opts.happened(m.log, Elected, m.opts.ID, o.epoch)
	return o, nil
}

// outwait returns when every lease of an earlier master is over. A closed
// office has none left: its master dropped the lease before it proposed the
// closing entry.
func (m *Master) outwait(ctx context.Context, term uint64, earlier state.Office) (time.Duration, error) {
	if !earlier.Open {
		return 0, nil
	}
	begun := m.opts.Clock()
	longest := time.Duration(earlier.LeaseMS) * time.Millisecond
	for {
		changed := m.log.Changed()
		if now, leading := m.log.Leading(); !leading || now != term {
			return 0, errNotLeading
		}
		now := m.opts.Clock()
		left := m.log.PromisedBefore(term) + m.opts.Drift.Long(longest) - now
		if left < 0 {
			return now - begun, nil
		}
		select {
		case <-time.After(left + 1):
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// await waits for an outcome while the replica leads, and then for one second
// more: without a leader the outcome may never come.
func (m *Master) await(ctx context.Context, term uint64, outcome func() (*state.Outcome, error)) (*state.Outcome, error) {
	got := wait.Go(outcome)
	for {
		changed := m.log.Changed()
		if now, leading := m.log.Leading(); !leading || now != term {
			select {
			case a := <-got:
				return a.Value, a.Err
			case <-time.After(time.Second): // usually the outcome comes at once
				return nil, errNotLeading
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		select {
		case a := <-got:
			return a.Value, a.Err
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
