package world

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// bare takes a lock by bare HTTP, through any replica, each call sent once: what
// an answer promises is held against the log, code by code.
func (u *user) bare(ctx context.Context, s *client.Session, which int) {
	want := paths[which]
	u.handles++
	p := pair{s.ID(), want.path, fmt.Sprintf("bare-%s-%d", u.name, u.handles)}
	q := lockapi.LockRequest{
		Session: p.session, Handle: p.handle, Mode: want.mode, Limit: want.max, Queue: u.rng.IntN(3) == 0,
	}
	if u.rng.IntN(2) == 0 {
		q.WaitMS = between(u.rng, time.Millisecond, 4*time.Second).Milliseconds()
	}
	// Without a word, where its patience ends. A grant whose answer got lost then
	// stays with the session, so nobody does that when all are to be served.
	leaves := u.rng.IntN(3) == 0 && !u.w.quiet
	for range 4 {
		var g lockapi.Grant
		patience := between(u.rng, 50*time.Millisecond, 6*time.Second)
		err := u.send(ctx, patience, http.MethodPut, lockapi.RouteLocks+p.path, q, &g)
		switch {
		case err == nil && g.State == lockapi.StateHeld:
			u.w.judge.acquired(u.name, p.path, p.session, p.handle, g.Token)
			u.wait(ctx, 500*time.Millisecond)
			u.free(ctx, p, g.Token)
			if u.rng.IntN(3) == 0 {
				u.again(ctx, p, q, g.Token)
			}
			return
		case err == nil: // queued: ask again later
			u.wait(ctx, time.Second)
			continue
		case errors.Is(err, lockapi.CodeLockHeld), errors.Is(err, lockapi.CodeLockDelayed), errors.Is(err, lockapi.CodeNoMaster),
			errors.Is(err, lockapi.CodeNotMaster):
			if !q.Queue { // of a kept place, an earlier call may have the effect
				u.w.judge.hadNoEffect(u.name, p, err.Error())
				return
			}
		case errors.Is(err, lockapi.CodeSessionNotFound):
			u.w.judge.lost(u.name, p.session)
			return
		}
		break
	}
	if !leaves || q.Queue {
		u.free(ctx, p, 0)
	}
}

// again uses a handle once more, though the contract advises against it, asks
// twice, and sends a late release of the first hold.
func (u *user) again(ctx context.Context, p pair, q lockapi.LockRequest, old uint64) {
	var g lockapi.Grant
	for range 2 {
		if err := u.send(ctx, 6*time.Second, http.MethodPut, lockapi.RouteLocks+p.path, q, &g); err != nil || g.State != lockapi.StateHeld {
			u.free(ctx, p, 0)
			return
		}
	}
	u.free(ctx, p, old)
	u.wait(ctx, 20*time.Millisecond)
	u.free(ctx, p, g.Token)
}

// bareRead reads a lock at whichever replica.
func (u *user) bareRead(ctx context.Context, which int) {
	floor := u.w.judge.floor()
	var got lockapi.Lock
	if err := u.send(ctx, 10*time.Second, http.MethodGet, lockapi.RouteLocks+paths[which].path, nil, &got); err == nil {
		u.w.judge.read(u.name, floor, got)
	}
}

// bareKeepalive keeps the session alive through whichever replica, beside the
// SDK, which does not learn of it.
func (u *user) bareKeepalive(ctx context.Context, s *client.Session) {
	sent := u.clock.read()
	var got lockapi.Keepalive
	err := u.send(ctx, 10*time.Second, http.MethodPost, lockapi.RouteSessions+"/"+s.ID()+"/keepalive", lockapi.KeepaliveRequest{}, &got)
	switch {
	case err == nil:
		u.promised[s.ID()] = max(u.promised[s.ID()], sent+time.Duration(got.HeldMS+got.TTLMS)*time.Millisecond)
	case errors.Is(err, lockapi.CodeSessionNotFound):
		u.w.judge.lost(u.name, s.ID())
	}
}

// free gives up what the pair has: as far as one call can while there are faults.
func (u *user) free(ctx context.Context, p pair, token uint64) {
	for !u.freed(ctx, p, token) && u.w.quiet && ctx.Err() == nil {
		u.pace(ctx)
	}
}

// freed makes one call to that end, and reports whether it was answered.
func (u *user) freed(ctx context.Context, p pair, token uint64) bool {
	route := fmt.Sprintf("%s%s?session=%s&handle=%s", lockapi.RouteLocks, p.path, p.session, p.handle)
	if token != 0 {
		route += fmt.Sprintf("&token=%d", token)
	}
	var out lockapi.Released
	err := u.send(ctx, 5*time.Second, http.MethodDelete, route, nil, &out)
	if err == nil && out.Released && token != 0 {
		u.w.judge.released(u.name, token)
	}
	return err == nil || errors.Is(err, lockapi.CodeSessionNotFound)
}

// send makes one call to one replica. The error is a *lockapi.Error where the
// replica has answered.
func (u *user) send(ctx context.Context, patience time.Duration, method, route string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var body []byte
	if in != nil {
		body, _ = json.Marshal(in)
	}
	to := u.w.machines[u.rng.IntN(len(u.w.machines))].id
	if old := u.w.old; old != nil && u.rng.IntN(2) == 0 {
		to = old.id // who may take itself for the master yet
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://"+to+route, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	resp, err := u.w.endpoint(u.name, u.ctx).RoundTrip(q)
	if err != nil {
		return err
	}
	raw, _ := io.ReadAll(resp.Body)
	u.w.trace.note(u.name, "%s %s by %s → %d %s", method, route, to, resp.StatusCode, bytes.TrimSpace(raw))
	if resp.StatusCode < 300 {
		return json.Unmarshal(raw, out)
	}
	e := new(lockapi.Error)
	if err := json.Unmarshal(raw, e); err != nil {
		u.w.fail("%s answered %s %s with %d and what is no problem document: %s", to, method, route, resp.StatusCode, raw)
	}
	if e.Code == lockapi.CodeInternal {
		u.w.fail("%s answered %s %s with %v", to, method, route, e)
	}
	return e
}
