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

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/bench/internal/drive"
)

// How often a page that shows the cell asks, as internal/page/files has it.
const (
	viewCell    = 500 * time.Millisecond
	viewMembers = 10 * time.Second
)

// loadViewers opens n pages that show the cell, at the replicas in turn, and leaves
// them open. The other client's changes are what they have to show.
func loadViewers(ctx context.Context, o *overload) error {
	way := o.cell.Way()
	before, err := o.cell.Sample(ctx)
	if err != nil {
		return err
	}
	viewing, stop := context.WithTimeout(ctx, floodTime)
	defer stop()
	var all sync.WaitGroup
	var asked, failed atomic.Int64
	for i := range o.n {
		v := newViewer(way, way.URLs[i%len(way.URLs)])
		defer v.via.CloseIdleConnections()
		all.Go(func() {
			if pause(viewing, time.Duration(i)*viewCell/time.Duration(o.n)) != nil {
				return
			}
			v.look(viewing)
			asked.Add(v.asked.Load())
			failed.Add(v.failed.Load())
		})
	}
	all.Wait()
	after, err := o.cell.Sample(ctx)
	if err != nil {
		return err
	}
	var cpu time.Duration // of all replicas, what the other client costs in it
	for id, u := range after.Replicas {
		cpu += u.CPU - before.Replicas[id].CPU
	}
	master := after.Replicas[after.Master].CPU - before.Replicas[after.Master].CPU
	o.note("%d pages: %.0f calls/s, %d failed; CPU of the master %.0f %%, of all replicas %.0f %%", o.n, float64(asked.Load())/floodTime.Seconds(), failed.Load(),
		100*master.Seconds()/floodTime.Seconds(), 100*cpu.Seconds()/floodTime.Seconds())
	return nil
}

// viewer is a page in a browser: it makes the calls that the page makes, and draws
// nothing.
type viewer struct {
	base, token string
	via         *http.Transport

	asked, failed atomic.Int64
}

func newViewer(way drive.Way, base string) *viewer {
	return &viewer{base: base, token: way.Token, via: &http.Transport{TLSClientConfig: way.TLS, ReadBufferSize: 4 << 10, WriteBufferSize: 2 << 10}}
}

// look has the page open until ctx ends.
func (v *viewer) look(ctx context.Context) {
	v.ask(ctx, lockapi.RouteWhoAmI+"?rights=true")
	var all sync.WaitGroup
	all.Go(func() { v.listen(ctx) })
	all.Go(func() { v.ask(ctx, fmt.Sprintf("%s?limit=%d", lockapi.RouteLocks, lockapi.MaxListLimit)) })
	all.Go(func() { v.again(ctx, lockapi.RouteCell, viewCell) })
	all.Go(func() { v.again(ctx, lockapi.RouteMembers, viewMembers) })
	all.Wait()
}

// again asks the same, with a pause behind each answer.
func (v *viewer) again(ctx context.Context, route string, every time.Duration) {
	for ctx.Err() == nil {
		v.ask(ctx, route)
		_ = pause(ctx, every) // its end is the loop's
	}
}

// ask makes one call and reads its answer.
func (v *viewer) ask(ctx context.Context, route string) {
	v.count(ctx, v.get(ctx, route, ""))
}

// listen reads the stream of events; one that ends is opened again.
func (v *viewer) listen(ctx context.Context) {
	for ctx.Err() == nil {
		v.count(ctx, v.get(ctx, lockapi.RouteEvents, lockapi.TypeEventStream))
		_ = pause(ctx, viewCell)
	}
}

func (v *viewer) count(ctx context.Context, err error) {
	v.asked.Add(1)
	if err != nil && ctx.Err() == nil {
		v.failed.Add(1)
	}
}

func (v *viewer) get(ctx context.Context, route, accept string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+route, nil)
	if err != nil {
		return err
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	if v.token != "" {
		req.Header.Set("Authorization", "Bearer "+v.token)
	}
	resp, err := v.via.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
