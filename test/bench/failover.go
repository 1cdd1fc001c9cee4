package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

const (
	// pollEvery is the pause between two operations of a prober.
	pollEvery = 5 * time.Millisecond
	// attemptBound bounds one operation by plain HTTP. The SDK bounds its own
	// attempts.
	attemptBound = 2 * time.Second
	// recovery is the longest gap; a longer one counts as an outage.
	recovery = 2 * time.Minute
	// calm is the time between the cell's return to health and the next kill.
	calm = 2 * time.Second
)

// runFailover kills the master again and again. Probers through the SDK and by
// plain HTTP run all the time, regardless of --via: the difference between them
// is the client's part of the gap.
func runFailover(ctx context.Context, b *bench) error {
	probers := []*prober{{via: target.SDK}, {via: target.HTTP, bound: attemptBound}}
	probing, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, p := range probers {
		f, err := b.clients(p.via, 1)
		if err == nil {
			err = f.openSessions(ctx, b)
		}
		if err != nil {
			return fmt.Errorf("prober via %s: %w", p.via, err)
		}
		running.Go(func() { p.run(probing, f) })
	}
	for i := range b.kills {
		b.progress.step("failover: kill %d of %d", i+1, b.kills)
		if err := b.killOnce(ctx, probers); err != nil {
			return fmt.Errorf("kill %d: %w", i+1, err)
		}
		b.progress.note("failover: kill %d of %d: gap %v via %s, %v via %s", i+1, b.kills,
			probers[0].lastGap().Round(time.Millisecond), probers[0].via, probers[1].lastGap().Round(time.Millisecond), probers[1].via)
	}
	for _, p := range probers {
		b.add(load.Row{Work: "failover", Via: p.via, Sessions: 1, Runs: 1, Failover: load.NewFailover(p.gaps)})
	}
	return nil
}

// killOnce kills the master, waits until every prober is served again, records
// the gaps, and restores the cell.
func (b *bench) killOnce(ctx context.Context, probers []*prober) error {
	if err := pause(ctx, calm); err != nil {
		return err
	}
	for _, p := range probers { // without service there is no last success to count from
		if err := p.awaitSuccess(ctx, time.Now()); err != nil {
			return err
		}
	}
	killed := time.Now()
	restore, err := b.cell.KillMaster(ctx)
	if err != nil {
		return err
	}
	dead := time.Now()
	for _, p := range probers {
		if err := p.awaitSuccess(ctx, dead); err != nil {
			return err
		}
	}
	for _, p := range probers {
		p.gaps = append(p.gaps, longestGap(p.since(killed)))
	}
	return restore(ctx)
}

// prober acquires and releases one lock again and again, with a short pause,
// and records when each pair succeeded.
type prober struct {
	via   string
	bound time.Duration // of one operation; 0: unlimited

	gaps []time.Duration

	mu        sync.Mutex
	successes []time.Time
}

// run probes with the only session of f until ctx ends, and closes it.
func (p *prober) run(ctx context.Context, f *field) {
	defer f.close(ctx)
	once := cycle(f.sessions[0], "/bench/failover/"+p.via)
	for ctx.Err() == nil {
		if p.attempt(ctx, once) == nil {
			p.mu.Lock()
			p.successes = append(p.successes, time.Now())
			p.mu.Unlock()
		}
		_ = pause(ctx, pollEvery) // an end of ctx ends the loop
	}
}

func (p *prober) attempt(ctx context.Context, once func(context.Context) error) error {
	if p.bound > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.bound)
		defer cancel()
	}
	return once(ctx)
}

// awaitSuccess waits for a success of an operation that began after t; one that
// began earlier may have been under way.
func (p *prober) awaitSuccess(ctx context.Context, t time.Time) error {
	ctx, cancel := context.WithTimeoutCause(ctx, recovery, fmt.Errorf("no service via %s within %v", p.via, recovery))
	defer cancel()
	for {
		p.mu.Lock()
		n := len(p.successes)
		served := n > 1 && p.successes[n-2].After(t)
		p.mu.Unlock()
		if served {
			return nil
		}
		if err := pause(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// since returns the last success before t and all later ones.
func (p *prober) since(t time.Time) []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := len(p.successes)
	for first > 0 && p.successes[first-1].After(t) {
		first--
	}
	return append([]time.Time(nil), p.successes[max(0, first-1):]...)
}

func (p *prober) lastGap() time.Duration {
	if len(p.gaps) == 0 {
		return 0
	}
	return p.gaps[len(p.gaps)-1]
}

// longestGap returns the longest time between two consecutive successes. It is
// not simply the first gap after the kill, because answers that the dead master
// had sent may still arrive.
func longestGap(successes []time.Time) (gap time.Duration) {
	for i := 1; i < len(successes); i++ {
		gap = max(gap, successes[i].Sub(successes[i-1]))
	}
	return gap
}
