package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/test/cell"
	"github.com/stoutlock/stout/test/chaos/internal/exclusion"
	"github.com/stoutlock/stout/test/chaos/internal/nemesis"
	"github.com/stoutlock/stout/test/chaos/internal/service"
	"github.com/stoutlock/stout/test/chaos/internal/watch"
	"github.com/stoutlock/stout/test/chaos/internal/work"
	"github.com/stoutlock/stout/test/history"
)

type trial struct {
	*settings
	size     int
	dir      string
	progress io.Writer

	cell     *cell.Cell
	recorder *history.Recorder
	resource *exclusion.Resource
	holds    *exclusion.Holds
	sums     *watch.Sums
	fleet    *work.Fleet
	prober   *service.Prober
	nemesis  *nemesis.Nemesis
	events   *watch.Events
	follow   func()   // ends the watchers
	log      *os.File // of the nemesis

	record   []history.Attempt
	seen     []history.Told
	grants   service.Record
	verdict  *history.Verdict
	took     time.Duration
	problems []string
}

// newTrial prepares a run. The caller must close it.
func newTrial(s *settings, size int, progress io.Writer) (*trial, error) {
	t := &trial{
		settings: s, size: size, progress: progress,
		recorder: history.NewRecorder(), resource: exclusion.NewResource(), holds: &exclusion.Holds{}, sums: watch.NewSums(),
		follow: func() {},
	}
	if err := t.prepare(); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *trial) prepare() (err error) {
	if t.dir, err = os.MkdirTemp(t.settings.dir, fmt.Sprintf("stout-chaos-%d-%d-", t.seed, t.size)); err != nil {
		return err
	}
	if t.log, err = os.Create(filepath.Join(t.dir, "nemesis.log")); err != nil {
		return err
	}
	var present, before string
	if t.stoutd == "" && t.does("upgrade") {
		releases, err := cell.ReleasesWithPoints()
		if err != nil {
			return err
		}
		present, before = releases.Present.Binary, releases.Before.Binary
	}
	t.cell, err = cell.Prepare(cell.Options{
		Dir: filepath.Join(t.dir, "cell"), Name: "chaos", Size: t.size, Binary: cmp.Or(before, t.stoutd), Network: true,
		FaultPoints: true, Args: timing, Door: t.door > 0,
	})
	if err != nil {
		return err
	}
	for _, r := range t.cell.Replicas() {
		t.grants.Replicas = append(t.grants.Replicas, r.ID)
	}
	t.grants.Within = t.within
	if t.prober, err = service.NewProber(t.cell.URLs(), t.recorder.Now); err != nil {
		return err
	}
	t.fleet, err = work.NewFleet(work.Options{
		URLs: t.cell.URLs(), Doors: t.cell.Doors(), SDK: t.sdk, Raw: t.raw, Files: t.files, Door: t.door, Epoch: t.epoch, Seed: t.seed,
		Recorder: t.recorder, Resource: t.resource, Holds: t.holds,
	})
	if err != nil {
		return err
	}
	if t.events, err = watch.NewEvents(t.cell); err != nil {
		return err
	}
	t.nemesis, err = nemesis.New(nemesis.Options{
		Cell: t.cell, Seed: t.seed, Faults: t.faults, Log: io.MultiWriter(t.log, t.progress), Now: t.recorder.Now,
		Present: present, Before: before, Upgrade: t.duration / 3, Points: cell.HasFaultPoints(t.cell.Replicas()[0].Command()[0]),
	})
	return err
}

// timing makes a fail-over fit into the time limit for a grant (see the package
// comment), and makes snapshots frequent.
var timing = []string{"--heartbeat-timeout=300ms", "--snapshot-threshold=500", "--snapshot-interval=2s"}

// close ends the cell, and removes files that need not be kept.
func (t *trial) close() error {
	var errs []error
	if t.fleet != nil {
		t.fleet.Close()
	}
	if t.events != nil {
		t.events.Close()
	}
	if t.prober != nil {
		errs = append(errs, t.prober.Close())
	}
	if t.cell != nil {
		errs = append(errs, t.cell.Close())
	}
	if t.log != nil {
		errs = append(errs, t.log.Close())
	}
	if !t.keep && len(t.problems) == 0 {
		errs = append(errs, os.RemoveAll(t.dir))
	}
	return errors.Join(errs...)
}

// settle bounds each step of the end: until there is a master, until every
// client has made a round, until all is gone. It is many times what they take.
const settle = 5 * time.Minute

// run causes faults, heals them, and checks the results. The error lists all
// problems.
func (t *trial) run(ctx context.Context) error {
	t.say("seed %d, %d replicas, %v, in %s", t.seed, t.size, t.duration, t.dir)
	err := t.harm(ctx)
	if err == nil && ctx.Err() != nil {
		t.say("interrupted: checking the requests so far")
	}
	t.note(err)
	t.note(t.recover(context.WithoutCancel(ctx)))
	t.follow()
	t.check()
	if len(t.problems) == 0 {
		return nil
	}
	return t.save()
}

// harm runs the clients and the nemesis at the same time.
func (t *trial) harm(ctx context.Context) error {
	for _, r := range t.cell.Replicas() {
		if err := r.Start(); err != nil {
			return err
		}
	}
	ready, cancel := context.WithTimeout(ctx, cell.StartTimeout)
	defer cancel()
	if _, err := t.cell.WaitReady(ready); err != nil {
		return err
	}
	t.follow = t.startWatchers(context.WithoutCancel(ctx))
	began := time.Now()
	ctx, stop := context.WithTimeout(ctx, t.duration)
	defer stop()
	var working sync.WaitGroup
	working.Go(func() { t.fleet.Work(ctx) })
	probing, ended := context.WithCancel(context.WithoutCancel(ctx))
	var looking sync.WaitGroup
	looking.Go(func() { t.grants.Late = service.Late(probing, t.recorder.Now) })
	working.Go(func() {
		defer ended()
		t.grants.Probes, t.grants.Losses = t.prober.Run(ctx)
	})
	working.Go(func() { t.sums.Watch(ctx, t.cell) })
	working.Go(func() { t.watchProcesses(ctx, stop) })
	err := t.nemesis.Run(ctx)
	working.Wait()
	looking.Wait()
	t.grants.Harms = t.nemesis.Harms()
	t.took = time.Since(began)
	return err
}

// startWatchers follows the events until the returned function is called.
func (t *trial) startWatchers(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { t.events.Follow(ctx) })
	return func() {
		cancel()
		following.Wait()
	}
}

// watchProcesses ends the run when a replica has ended unexpectedly, because
// later results are useless.
func (t *trial) watchProcesses(ctx context.Context, stop context.CancelFunc) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if len(t.nemesis.Keeper().Ended()) > 0 {
				stop()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// recover requires the healed cell to work: a master, progress of every client,
// an empty cell, equal states, and a clean end.
func (t *trial) recover(ctx context.Context) error {
	step := func(what string, do func(context.Context) error) error {
		began := time.Now()
		within, cancel := context.WithTimeout(ctx, settle)
		defer cancel()
		if err := do(within); err != nil {
			return fmt.Errorf("after the faults were healed, %s: %w", what, err)
		}
		t.say("%s (%v)", what, time.Since(began).Round(time.Millisecond))
		return nil
	}
	if ended := t.nemesis.Keeper().Ended(); len(ended) > 0 {
		t.problems = append(t.problems, ended...)
		return nil
	}
	return errors.Join(
		step("there is a master and every replica is ready", func(ctx context.Context) error {
			_, err := t.cell.WaitReady(ctx)
			return err
		}),
		step("every client makes progress", t.fleet.Prove),
		step("the cell is backed up", t.nemesis.Backup),
		step("the cell is empty", t.empty),
		step("every watcher has all events", t.caughtUp),
		step("the replicas' states agree", t.agree),
		step("the replicas stop cleanly", t.cell.Stop),
	)
}

// empty waits until the cell has no session, lock or waiter.
func (t *trial) empty(ctx context.Context) error {
	return cell.Wait(ctx, "the cell is empty", func(ctx context.Context) error {
		master, err := t.cell.Master(ctx)
		if err != nil {
			return err
		}
		view, err := master.Cell(ctx)
		if err != nil {
			return err
		}
		if view.Sessions == nil || view.Locks == nil || view.Waiters == nil {
			return fmt.Errorf("%s does not report the counts", master.ID)
		}
		if *view.Sessions+*view.Locks+*view.Waiters > 0 {
			return fmt.Errorf("%d sessions, %d locks, %d waiters are left", *view.Sessions, *view.Locks, *view.Waiters)
		}
		return nil
	})
}

// caughtUp waits until every watcher has received all events.
func (t *trial) caughtUp(ctx context.Context) error {
	c, err := client.Config{URLs: t.cell.URLs()}.New()
	if err != nil {
		return err
	}
	defer c.Close()
	revision, err := c.Revision(ctx)
	if err != nil {
		return err
	}
	return t.events.Reach(ctx, revision)
}

// agree waits until all replicas have shown the sum of one more state.
func (t *trial) agree(ctx context.Context) error {
	before := t.sums.Latest(1)
	return cell.Wait(ctx, "all replicas show their state's sum at the same log entry", func(ctx context.Context) error {
		t.sums.Look(ctx, t.cell)
		if at := t.sums.Latest(t.size); at <= before {
			return fmt.Errorf("the last entry with a sum of all is %d; the faults ended at %d", at, before)
		}
		return nil
	})
}

func (t *trial) say(format string, args ...any) {
	fmt.Fprintf(t.progress, "%10.3f  %s\n", t.recorder.Now().Seconds(), fmt.Sprintf(format, args...))
}

func (t *trial) note(err error) {
	if err != nil {
		t.problems = append(t.problems, err.Error())
	}
}
