package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/bench/internal/drive"
)

const (
	// snapshotTime is for how long a full cell is watched where no other time is
	// named.
	snapshotTime = time.Minute
	// snapshotPace is how often it is looked whether a replica writes a
	// snapshot.
	snapshotPace = 5 * time.Millisecond
	// besideSessions are those that take and release locks of their own
	// meanwhile.
	besideSessions = 16
)

// phases are the latencies of operations, in microseconds, with no snapshot
// going on and with one.
type phases struct {
	mu   sync.Mutex
	seen [2]*hdrhistogram.Histogram
}

// loadSnapshots fills the cell with n sessions, each with a lock, and then has
// others take and release locks of their own: what do they notice of the
// snapshots? The cell's settings say how often there is one.
func loadSnapshots(ctx context.Context, o *overload) error {
	c := drive.NewCaller(o.cell.Way())
	defer c.Close()
	under := o.probing.Swap(newHistogram())
	began := time.Now()
	ids, err := openMany(ctx, c, o.n, func() time.Duration { return longTTL })
	if err != nil {
		return err
	}
	err = drive.Each(o.n, func(i int) error {
		path := fmt.Sprintf("%s/bench/snapshot/%d/%d", lockapi.RouteLocks, i/perSession, i%perSession)
		return c.Call(ctx, http.MethodPut, path, ask(ids[i], 0, 0, false), nil)
	})
	if err != nil {
		return err
	}
	o.note("%d sessions with a lock each after %.1f s", o.n, time.Since(began).Seconds())
	err = o.besideSnapshots(ctx, under)
	return errors.Join(err, drive.Each(len(ids), func(i int) error { return closeRaw(ctx, c, ids[i]) }))
}

// besideSnapshots has sessions take and release locks for a while.
func (o *overload) besideSnapshots(ctx context.Context, under *hdrhistogram.Histogram) (err error) {
	f := &field{}
	if f.clients, err = drive.Clients(drive.HTTP, o.cell.Way(), besideSessions, false); err != nil {
		return err
	}
	defer f.close(ctx)
	if err := f.openSessions(ctx, o.bench); err != nil {
		return err
	}
	watching, stop := context.WithTimeout(ctx, o.snapshotTime)
	defer stop()
	var steps []func(context.Context) error
	for i, s := range f.sessions {
		steps = append(steps, cycle(s, fmt.Sprintf("/bench/snapshot/beside/%d", i)))
	}
	o.probing.Store(under)
	p, w := o.besidePhases(watching, steps)
	o.probing.Store(newHistogram())
	if w.snapshots == 0 {
		return errNoSnapshot
	}
	calm, during := latencies(p.seen[0]), latencies(p.seen[1])
	o.note("%d sessions beside: p50/p99/max %.1f/%.1f/%.0f ms without a snapshot (%d), %.1f/%.1f/%.0f ms with one (%d, in %.1f s of %d snapshots), %d errors",
		besideSessions, calm.P50, calm.P99, calm.Max, calm.Count, during.P50, during.P99, during.Max, during.Count, w.took.Seconds(), w.snapshots, w.errs)
	return ctx.Err()
}

// errNoSnapshot says that nothing was seen of what the work is about.
var errNoSnapshot = errors.New("no replica has written a snapshot: see --stoutd-arg=--snapshot-threshold=2000 --stoutd-arg=--snapshot-interval=5s, on a cell that is started")

// watched is what was seen of snapshots, and how many operations failed.
type watched struct {
	took            time.Duration // that there was one or several
	snapshots, errs int64
}

// besidePhases makes operations, one of each step at a time, until ctx ends.
func (b *bench) besidePhases(ctx context.Context, steps []func(context.Context) error) (*phases, watched) {
	var all sync.WaitGroup
	var now, snapshots, errs atomic.Int64
	var w watched
	p := &phases{seen: [2]*hdrhistogram.Histogram{newHistogram(), newHistogram()}}
	all.Go(func() { w.took = b.watchSnapshots(ctx, &now, &snapshots) })
	for _, once := range steps {
		all.Go(func() {
			for ctx.Err() == nil {
				if p.time(&now, func() error { return once(ctx) }) != nil && ctx.Err() == nil {
					errs.Add(1)
				}
			}
		})
	}
	all.Wait()
	w.snapshots, w.errs = snapshots.Load(), errs.Load()
	return p, w
}

// time makes an operation. It counts to a snapshot that was going on at its
// begin or at its end.
func (p *phases) time(now *atomic.Int64, once func() error) error {
	began, before := time.Now(), now.Load()
	if err := once(); err != nil {
		return err
	}
	took, phase := time.Since(began), 0
	if before > 0 || now.Load() > 0 {
		phase = 1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[phase].RecordValue(took.Microseconds())
}

// watchSnapshots keeps count of the replicas that are writing a snapshot now,
// and of the snapshots so far, until ctx ends. It returns for how long there
// was one.
func (b *bench) watchSnapshots(ctx context.Context, now, all *atomic.Int64) (took time.Duration) {
	for last := time.Now(); pause(ctx, snapshotPace) == nil; {
		n := int64(b.cell.Snapshotting())
		if was := now.Swap(n); n > was {
			all.Add(n - was)
		}
		if n > 0 {
			took += time.Since(last)
		}
		last = time.Now()
	}
	return took
}
