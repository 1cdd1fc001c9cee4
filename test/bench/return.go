package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/test/internal/target"
)

// loadReturn opens n sessions of the SDK, each with a lock, and kills the
// master. One client has them all, or several share them.
func loadReturn(ctx context.Context, o *overload) error {
	programs := make([]*client.Client, max(o.programs, 1))
	for i := range programs {
		var err error
		if programs[i], err = o.cell.Way().SDK(); err != nil {
			return err
		}
		defer programs[i].Close()
	}
	sdks := inTurn(programs, o.n)
	sessions := make([]*client.Session, o.n)
	defer func() {
		_ = target.Each(o.n, func(i int) error {
			if sessions[i] != nil {
				_ = sessions[i].Close(ctx)
			}
			return nil
		})
	}()
	err := target.Each(o.n, func(i int) (err error) {
		if sessions[i], err = sdks[i].NewSession(ctx, client.TTL(o.ttl)); err == nil {
			_, err = sessions[i].TryLock(ctx, fmt.Sprintf("/bench/return/%d", i))
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := pause(ctx, o.ttl); err != nil { // spreads the keepalives as in normal use
		return err
	}
	before, err := o.epoch(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	restore, err := o.cell.KillMaster(ctx)
	if err != nil {
		return err
	}
	after := before
	if err := until(ctx, func() (bool, error) { after, err = o.epoch(ctx); return after != before, err }); err != nil {
		return err
	}
	elected := time.Since(began)
	var all sync.WaitGroup
	var lost atomic.Int64
	for _, s := range sessions {
		all.Go(func() {
			if until(ctx, func() (bool, error) { return s.Epoch() >= after && s.State() == client.Safe, s.Err() }) != nil {
				lost.Add(1)
			}
		})
	}
	all.Wait()
	o.note("a new master after %.2f s, all sessions back after %.2f s, %d lost", elected.Seconds(), time.Since(began).Seconds(), lost.Load())
	return restore(ctx)
}
