package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

// overload is a load that hurts: its cost for the master, and its effect on
// another client, which acquires and releases its own lock all the time.
type overload struct {
	*bench
	n   int
	row *load.Overload

	probing atomic.Pointer[hdrhistogram.Histogram] // of the present phase, in microseconds
	rss     int64                                  // highest of the master
	failed  int
	failure error
}

const (
	// calmTime is how long the other client is measured before the load.
	calmTime = 3 * time.Second
	// watchPause is the interval of reading the master's memory.
	watchPause = 200 * time.Millisecond
	// probePause is the pause of the other client.
	probePause = 10 * time.Millisecond
)

// overloaded makes a work of a load with the default size n.
func overloaded(name string, n int, hurt func(context.Context, *overload) error) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		for _, n := range b.numbers(n) {
			o := &overload{bench: b, n: n, row: &load.Overload{}}
			if err := o.run(ctx, name, hurt); err != nil {
				return fmt.Errorf("%s, %d: %w", name, n, err)
			}
		}
		return nil
	}
}

func (o *overload) run(ctx context.Context, name string, hurt func(context.Context, *overload) error) error {
	client, err := target.NewClient(target.HTTP, o.cell.Way())
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := client.Open(ctx, time.Minute)
	if err != nil {
		return err
	}
	before, err := o.cell.Sample(ctx)
	if err != nil {
		return err
	}
	first, err := o.epoch(ctx)
	if err != nil {
		return err
	}
	lapses := o.cell.Lapses()
	o.row.RSSBefore = mebibytes(before.Replicas[before.Master].RSS)

	watching, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	calm, under := newHistogram(), newHistogram()
	o.probing.Store(calm)
	running.Go(func() { o.probe(watching, cycle(session, "/bench/overload/other")) })
	running.Go(func() { o.watchMemory(watching) })
	err = pause(ctx, calmTime)
	if err == nil {
		o.probing.Store(under)
		began := time.Now()
		err = hurt(ctx, o)
		o.row.Seconds = time.Since(began).Seconds()
	}
	stop()
	running.Wait()
	if err != nil {
		return err
	}
	last, err := o.epoch(ctx)
	if err != nil {
		return err
	}
	o.row.Elections, o.row.Lapses = last-first, o.cell.Lapses()-lapses
	o.row.Calm, o.row.Under = latencies(calm), latencies(under)
	o.row.RSSMost, o.row.OtherErrors = mebibytes(o.rss), o.failed
	if o.failure != nil {
		o.row.OtherError = o.failure.Error()
	}
	o.add(load.Row{Work: name, Via: target.HTTP, Sessions: o.n, Runs: 1, Overload: o.row})
	return errors.Join(session.Close(ctx))
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
}

func latencies(h *hdrhistogram.Histogram) load.Latencies {
	ms := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1000 }
	return load.Latencies{P50: ms(50), P99: ms(99), Max: ms(100), Count: h.TotalCount()}
}

// probe is the other client.
func (o *overload) probe(ctx context.Context, once func(context.Context) error) {
	for ctx.Err() == nil {
		began := time.Now()
		err := once(ctx)
		switch {
		case err == nil:
			_ = o.probing.Load().RecordValue(time.Since(began).Microseconds()) // fails only above an hour
		case ctx.Err() == nil:
			o.failed++
			o.failure = err
		}
		_ = pause(ctx, probePause) // an end of ctx ends the loop
	}
}

// watchMemory records the master's highest memory use.
func (o *overload) watchMemory(ctx context.Context) {
	for ctx.Err() == nil {
		if s, err := o.cell.Sample(ctx); err == nil {
			o.rss = max(o.rss, s.Replicas[s.Master].RSS)
		}
		_ = pause(ctx, watchPause)
	}
}

func (o *overload) note(format string, args ...any) {
	o.row.Notes = append(o.row.Notes, fmt.Sprintf(format, args...))
	o.progress.note(format, args...)
}
