package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

// idleSessions is the default number of sessions.
const idleSessions = 1000

// runIdle measures the cost of sessions that only send keepalives.
func runIdle(ctx context.Context, b *bench) error {
	return b.each([]int{idleSessions}, func(via string, n int) error { return b.idle(ctx, via, n) })
}

// idle opens n sessions and measures their cost. Each run lasts at least one
// ttl, because the ttl sets the interval of keepalives.
func (b *bench) idle(ctx context.Context, via string, n int) error {
	label := fmt.Sprintf("idle via %s, %d sessions", via, n)
	if b.programs > 0 {
		label += fmt.Sprintf(" of %d clients", b.programs)
	}
	b.progress.step("%s: opening", label)
	if err := b.cell.Refresh(ctx); err != nil {
		return err
	}
	empty, err := b.cell.Sample(ctx)
	if err != nil {
		return err
	}
	f, err := b.clients(via, min(cmp.Or(b.programs, n), n))
	if err != nil {
		return err
	}
	defer f.close(ctx)
	opening, cancel := context.WithTimeout(ctx, setup+time.Duration(n)*5*time.Millisecond)
	defer cancel()
	if f.sessions, err = target.OpenAll(opening, inTurn(f.clients, n), b.ttl); err != nil {
		return fmt.Errorf("%s: %w", label, err)
	}
	row := load.Row{Work: "idle", Via: via, Sessions: n, Runs: b.runs, Idle: &load.Idle{TTL: b.ttl.Seconds(), Clients: b.programs}}
	if err := b.watchIdle(ctx, label, row.Idle, empty, n); err != nil {
		return err
	}
	if row.Idle.Expired, err = b.missing(ctx, n); err != nil {
		return err
	}
	b.progress.note("%s: master %.1f %% of a core, %.1f KiB per session", label, row.Idle.MasterPercent.Median, row.Idle.KiBPerSession)
	b.add(row)
	return nil
}

// watchIdle measures the cost of the sessions.
func (b *bench) watchIdle(ctx context.Context, label string, out *load.Idle, empty target.Sample, n int) error {
	length := max(b.duration, b.ttl)
	var master, all []float64
	b.progress.step("%s: settling for %v", label, length)
	if err := pause(ctx, length); err != nil {
		return err
	}
	for i := range b.runs {
		b.progress.step("%s: run %d of %d", label, i+1, b.runs)
		before, err := b.cell.Sample(ctx)
		if err != nil {
			return err
		}
		if err := pause(ctx, length); err != nil {
			return err
		}
		after, err := b.cell.Sample(ctx)
		if err != nil {
			return err
		}
		cellTime, masterTime, ok := spent(before, after)
		if !ok {
			return errors.New("the master changed during the run")
		}
		master = append(master, 100*masterTime.Seconds()/length.Seconds())
		all = append(all, 100*cellTime.Seconds()/length.Seconds())
		grown := after.Replicas[after.Master].RSS - empty.Replicas[after.Master].RSS
		out.KiBPerSession = max(0, float64(grown)/1024/float64(n))
		out.MasterRSS = mebibytes(after.Replicas[after.Master].RSS)
	}
	out.MasterPercent, out.CellPercent = load.SpreadOf(master), load.SpreadOf(all)
	return nil
}

// missing returns how many of n sessions the cell no longer knows.
func (b *bench) missing(ctx context.Context, n int) (count int, err error) {
	err = until(ctx, func() (bool, error) {
		view, err := b.cell.View(ctx)
		if err != nil || view.Sessions == nil { // unknown without a master
			return false, err
		}
		count = max(0, n-*view.Sessions)
		return true, nil
	})
	return count, err
}
