package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/bench/internal/drive"
)

// deepTime is for how long the other client is watched on a full cell.
const deepTime = 10 * time.Second

// loadDeep fills the cell with n held locks and n queue positions for one more,
// and then leaves it alone: what does a single operation cost on a full cell?
// The other client's figures are those after the filling.
func loadDeep(ctx context.Context, o *overload) error {
	c := drive.NewCaller(o.cell.Way())
	defer c.Close()
	under := o.probing.Swap(newHistogram())
	ids, err := openMany(ctx, c, 1+(o.n+perSession-1)/perSession, func() time.Duration { return longTTL })
	if err != nil {
		return err
	}
	holder, ids := ids[len(ids)-1], ids[:len(ids)-1]
	const queue = lockapi.RouteLocks + "/bench/deep/queue"
	if err := c.Call(ctx, http.MethodPut, queue, ask(holder, 0, 0, false), nil); err != nil {
		return err
	}
	began := time.Now()
	err = drive.Each(o.n, func(i int) error {
		path := fmt.Sprintf("%s/bench/deep/held/%d/%d", lockapi.RouteLocks, i/perSession, i%perSession)
		if err := c.Call(ctx, http.MethodPut, path, ask(ids[i/perSession], i, 0, false), nil); err != nil {
			return err
		}
		return c.Call(ctx, http.MethodPut, queue, ask(ids[i/perSession], i, 0, true), nil)
	})
	if err != nil {
		return err
	}
	o.note("%d held locks and %d places in a queue after %.1f s", o.n, o.n, time.Since(began).Seconds())
	o.probing.Store(under)
	err = pause(ctx, deepTime)
	o.probing.Store(newHistogram())
	return errors.Join(err, drive.Each(len(ids), func(i int) error { return closeRaw(ctx, c, ids[i]) }), closeRaw(ctx, c, holder))
}

// loadPast has n locks, each of its own path, taken and released, and then
// leaves the cell alone: what is past should cost nothing. The other client's
// figures are those after it.
func loadPast(ctx context.Context, o *overload) error {
	c := drive.NewCaller(o.cell.Way())
	defer c.Close()
	under := o.probing.Swap(newHistogram())
	id, err := openRaw(ctx, c, longTTL)
	if err != nil {
		return err
	}
	began := time.Now()
	err = drive.Each(o.n, func(i int) error {
		path := fmt.Sprintf("/bench/past/%d/%d", i/perSession, i%perSession)
		if err := c.Call(ctx, http.MethodPut, lockapi.RouteLocks+path, ask(id, 0, 0, false), nil); err != nil {
			return err
		}
		return c.Call(ctx, http.MethodDelete, releaseOf(path, id, "0"), nil, nil)
	})
	if err != nil {
		return err
	}
	o.note("%d locks taken and released in %.1f s", o.n, time.Since(began).Seconds())
	o.probing.Store(under)
	err = pause(ctx, deepTime)
	o.probing.Store(newHistogram())
	return errors.Join(err, closeRaw(ctx, c, id))
}
