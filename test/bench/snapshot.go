package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/stoutlock/stout/test/internal/target"
)

const (
	// snapshotTime is the default time for which a full cell is measured.
	snapshotTime = time.Minute
	// snapshotPace is the interval of looking for snapshots in progress.
	snapshotPace = 5 * time.Millisecond
	// besideSessions is the number of sessions that acquire and release their
	// own locks at the same time.
	besideSessions = 16
)

// loadSnapshots fills the cell with n sessions, each with a lock. It then
// measures how snapshots affect other sessions that acquire and release their
// own locks. The cell's settings decide how often there is a snapshot.
func loadSnapshots(ctx context.Context, o *overload) error {
	c := target.NewRaw(o.cell.Way())
	defer c.Close()
	under := o.probing.Swap(newHistogram())
	began := time.Now()
	ids, err := openMany(ctx, c, o.n)
	if err != nil {
		return err
	}
	err = target.Each(o.n, func(i int) error {
		return ask(ctx, c, fmt.Sprintf("/bench/snapshot/%d/%d", i/perSession, i%perSession), ids[i], 0, false)
	})
	if err != nil {
		return err
	}
	o.note("%d sessions with a lock each after %.1f s", o.n, time.Since(began).Seconds())
	err = o.besideSnapshots(ctx, under)
	return errors.Join(err, closeMany(ctx, c, ids))
}

// besideSnapshots makes sessions acquire and release locks for a while.
func (o *overload) besideSnapshots(ctx context.Context, under *hdrhistogram.Histogram) error {
	f, err := o.clients(target.HTTP, besideSessions)
	if err != nil {
		return err
	}
	defer f.close(ctx)
	if err := f.openSessions(ctx, o.bench); err != nil {
		return err
	}
	watching, stop := context.WithTimeout(ctx, o.snapshotTime)
	defer stop()
	o.probing.Store(under)
	w := watched{calm: newHistogram(), during: newHistogram()}
	w.watch(watching, o.cell, f.sessions)
	o.probing.Store(newHistogram())
	if w.snapshots == 0 {
		return errNoSnapshot
	}
	calm, during := latencies(w.calm), latencies(w.during)
	o.note("%d other sessions: p50/p99/max %.1f/%.1f/%.0f ms without a snapshot (%d), %.1f/%.1f/%.0f ms during one (%d, in %.1f s of %d snapshots), %d errors",
		besideSessions, calm.P50, calm.P99, calm.Max, calm.Count, during.P50, during.P99, during.Max, during.Count, w.took.Seconds(), w.snapshots, w.errs)
	return ctx.Err()
}

// errNoSnapshot reports that no snapshot happened.
var errNoSnapshot = errors.New("no replica has written a snapshot: set --stoutd-arg=--snapshot-threshold=2000 --stoutd-arg=--snapshot-interval=5s, for a cell that bench starts")

// watched is the observed snapshots, and the operations beside them.
type watched struct {
	now       atomic.Int64  // how many replicas are writing one
	snapshots int64         // so far
	took      time.Duration // time with one or more in progress

	mu           sync.Mutex              // guards the rest
	calm, during *hdrhistogram.Histogram // in microseconds, without and with a snapshot in progress
	errs         int
}

// watch makes each session acquire and release a lock until ctx ends, and
// counts the cell's snapshots.
func (w *watched) watch(ctx context.Context, cell *target.Cell, sessions []target.Session) {
	var all sync.WaitGroup
	defer all.Wait()
	for i, s := range sessions {
		once := cycle(s, fmt.Sprintf("/bench/snapshot/beside/%d", i))
		all.Go(func() {
			for ctx.Err() == nil {
				w.time(ctx, once)
			}
		})
	}
	for last := time.Now(); pause(ctx, snapshotPace) == nil; {
		n := int64(cell.Snapshotting())
		w.snapshots += max(0, n-w.now.Swap(n))
		if n > 0 {
			w.took += time.Since(last)
		}
		last = time.Now()
	}
}

// time makes and measures one operation. It counts as beside a snapshot if one
// was in progress at its begin or at its end.
func (w *watched) time(ctx context.Context, once func(context.Context) error) {
	began, before := time.Now(), w.now.Load()
	err := once(ctx)
	took, beside := time.Since(began).Microseconds(), before > 0 || w.now.Load() > 0
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil && ctx.Err() == nil:
		w.errs++
	case err != nil: // interrupted at the end
	case beside:
		_ = w.during.RecordValue(took) // fails only above an hour
	default:
		_ = w.calm.RecordValue(took)
	}
}
