package simcell

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// A probe is a second program of a user, on the same machine, that relies on a
// session by bare HTTP. It keeps the session alive for a while and falls
// silent. It then counts on the session to the last moment of the promised
// time.

// probe does that repeatedly until the faults are over.
func (u *user) probe(ctx context.Context) {
	for ctx.Err() == nil && !u.w.faultsOver && !u.w.failed() {
		u.probeSession(ctx)
		u.wait(ctx, time.Second)
	}
}

// probeSession uses one session.
func (u *user) probeSession(ctx context.Context) {
	u.handles++
	key := fmt.Sprintf("key-%s-%d", u.name, u.handles)
	ttl := time.Duration(1000+u.rng.Int64N(u.w.profile.ttl.Milliseconds())) * time.Millisecond
	sent := u.clock.read()
	id := u.open(ctx, u.anyone(), key, ttl)
	if id == "" {
		return
	}
	u.probed, u.promised[id] = id, sent+ttl
	if u.rng.IntN(3) == 0 {
		u.acquires(ctx, id)
	}
	for range u.rng.IntN(5) {
		u.wait(ctx, ttl/2)
		if u.rng.IntN(3) == 0 {
			u.reopen(ctx, key, ttl, id)
		}
		u.bareKeepalive(ctx, u.anyone(), id, time.Duration(u.rng.Int64N(int64(ttl))))
	}
	if u.rng.IntN(4) == 0 {
		u.bareClose(ctx, u.anyone(), id)
	}
	for left, ok := u.remaining(id); ok && ctx.Err() == nil; left, ok = u.remaining(id) {
		u.wait(ctx, 2*left)
		if !u.w.faultsOver && u.rng.IntN(4) == 0 { // otherwise it could continue for ever
			u.reopen(ctx, key, ttl, id)
		}
	}
}

// open opens a session with one call to one replica. It returns "" if the call
// failed.
func (u *user) open(ctx context.Context, at, key string, ttl time.Duration) string {
	q := lockapi.NewSessionRequest()
	q.TTLMS = ttl.Milliseconds()
	var got lockapi.Session
	m := u.message(http.MethodPost, lockapi.RouteSessions, q, &got)
	m.key = key
	if err := u.send(ctx, 5*time.Second, at, m); err != nil {
		return ""
	}
	return got.ID
}

// reopen repeats the opening. It returns the same session and extends it,
// unless that has ended. The user does not count on a new session, which an
// earlier call with a lost answer may have opened.
func (u *user) reopen(ctx context.Context, key string, ttl time.Duration, id string) {
	sent, floor := u.clock.read(), u.w.oracle.floor()
	got := u.open(ctx, u.anyone(), key, ttl)
	if got == "" {
		return
	}
	u.w.oracle.reopened(u.name, floor, id, got)
	if got == id {
		u.promised[id] = max(u.promised[id], sent+ttl)
	}
}

// bareClose closes a session with one call to one replica. The user does not
// count on it after that, even if the call fails.
func (u *user) bareClose(ctx context.Context, at, id string) {
	delete(u.promised, id)
	m := u.message(http.MethodDelete, lockapi.RouteSessions+"/"+id, nil, nil)
	if u.send(ctx, 5*time.Second, at, m) == nil {
		u.w.oracle.closed(u.name, id)
	}
}

// spare opens a session at one replica, for ask to close.
func (u *user) spare(ctx context.Context, at string) {
	u.handles++
	u.spared = u.open(ctx, at, fmt.Sprintf("spare-%s-%d", u.name, u.handles), 5*time.Second)
}

// acquires takes a lock and leaves it until the end of the session.
func (u *user) acquires(ctx context.Context, session string) {
	l := u.anyWant()
	p := u.newPair(session, l.path)
	q := lockapi.LockRequest{
		Mode: l.mode, Limit: l.max,
		WaitMS: 500, LockDelayMS: u.delay().Milliseconds(),
	}
	_, _, _ = u.request(ctx, 2*time.Second, u.anyone(), p, q)
}

// ask makes the user send every kind of call to one replica at once, not to be
// forwarded. A replica that wrongly considers itself the master is then found.
func (u *user) ask(at string) {
	ctx := u.ctx
	for _, l := range wants {
		go u.bareRead(ctx, at, l.path)
	}
	go u.readsFileAt(ctx, at)
	if h := u.former; h != nil {
		go u.checkFormer(ctx, at, h)
	}
	if id := u.spared; id != "" {
		u.spared = ""
		go u.bareClose(ctx, at, id)
	}
	sessions := []string{u.probed}
	if u.session != nil {
		sessions = append(sessions, u.session.ID())
	}
	for _, id := range sessions {
		if id == "" {
			continue
		}
		go u.readSession(ctx, at, id)
		go u.bareKeepalive(ctx, at, id, 0)
		go u.bareKeepalive(ctx, at, id, between(u.rng, 20*time.Millisecond, time.Second))
		l := u.anyWant()
		go u.try(ctx, at, u.newPair(id, l.path), l, true)
	}
	if p := u.last; p != (pair{}) {
		u.last = pair{}
		for _, l := range wants {
			if l.path == p.path && l.mode != "" {
				go u.try(ctx, at, p, l, false)
			}
		}
	}
}

// checkFormer checks the sequencer of a hold that has ended, or is about to.
func (u *user) checkFormer(ctx context.Context, at string, h *client.Held) {
	floor := u.w.oracle.floor()
	var got lockapi.SequencerCheck
	m := u.message(http.MethodGet, lockapi.RouteSequencers+"?value="+url.QueryEscape(h.Sequencer()), nil, &got)
	m.stays = true
	if u.send(ctx, 10*time.Second, at, m) == nil {
		u.w.stats.check("former sequencer")
		u.w.oracle.checked(u.name, floor, h.Path(), h.Token(), got.Valid)
	}
}

// try requests a lock with one call and releases it at once. The handle may
// have been used before.
func (u *user) try(ctx context.Context, at string, p pair, l want, fresh bool) {
	floor := u.w.oracle.floor()
	q := lockapi.LockRequest{Session: p.session, Handle: p.handle, Mode: l.mode, Limit: l.max}
	var g lockapi.Grant
	m := u.message(http.MethodPut, lockapi.RouteLocks+p.path, q, &g)
	m.stays = true
	err := u.send(ctx, 10*time.Second, at, m)
	switch {
	case err == nil && g.State == lockapi.StateHeld:
		u.w.oracle.acquired(u.name, floor, p, g.Token)
		u.free(ctx, p, g.Token)
	case isUnknown(err):
		u.free(ctx, p, 0)
	case errors.Is(err, lockapi.CodeSessionNotFound):
		u.w.oracle.lost(u.name, p.session)
	case u.refused(floor, p, &q, err) && fresh:
		u.w.oracle.hadNoEffect(u.name, p, err.Error())
	}
}
