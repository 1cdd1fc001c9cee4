package simcell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// newPair returns a new handle of the user's for a bare call.
func (u *user) newPair(session, path string) pair {
	u.handles++
	return pair{session, path, fmt.Sprintf("bare-%s-%d", u.name, u.handles)}
}

// isBare reports whether a handle is not the SDK's. Keys have an empty one.
func isBare(handle string) bool { return handle == "" || strings.HasPrefix(handle, "bare-") }

// bare takes a lock by bare HTTP, through any replica, with each call sent
// once. The oracle checks the promise of each answer, code by code, against the
// log. A call that breaks off may be retried at once.
func (u *user) bare(ctx context.Context, s *client.Session, l want) {
	if others := u.others(l); others != nil {
		u.several(ctx, s, l, others)
		return
	}
	p := u.newPair(s.ID(), l.path)
	q := lockapi.LockRequest{
		Mode: l.mode, Limit: l.max, Queue: u.rng.IntN(3) == 0,
		LockDelayMS: u.delay().Milliseconds(), Priority: int64(u.rank(p)),
	}
	if u.rng.IntN(2) == 0 {
		q.WaitMS = between(u.rng, time.Millisecond, 4*time.Second).Milliseconds()
	}
	// It stops without a release when its patience ends. A grant with a lost
	// answer then stays with the session, so users do not do that when all are
	// to be served.
	leaves := u.rng.IntN(3) == 0 && !u.w.quiet
	answered := true // every call so far was answered
	for range 4 {
		patience := between(u.rng, 5*time.Millisecond, u.w.profile.patience)
		if u.w.quiet {
			patience = 6 * time.Second
			if !q.Queue && u.rng.IntN(2) == 0 {
				patience = 300 * time.Millisecond // long enough for the request to arrive
			}
		}
		g, floor, err := u.request(ctx, patience, u.anyone(), p, q)
		switch {
		case err == nil && g.State == lockapi.StateHeld:
			u.works(ctx)
			u.free(ctx, p, g.Token)
			if u.rng.IntN(3) == 0 {
				u.again(ctx, p, q, g.Token)
			} else {
				u.last = p
			}
			return
		case err == nil: // queued: ask again later; another priority then has no effect
			u.wait(ctx, time.Second)
			q.Priority = int64(u.rank(p))
			continue
		case isUnknown(err):
			answered = false
			switch u.rng.IntN(4) {
			case 0, 1:
				continue
			case 2:
				if !u.w.quiet {
					u.reconciles(ctx, p, q)
					return
				}
			}
		case errors.Is(err, lockapi.CodeSessionNotFound):
			u.w.oracle.lost(u.name, p.session)
			return
		case answered && !q.Queue: // with a kept place an earlier call may have the effect
			if u.refused(floor, p, &q, err) {
				u.w.oracle.hadNoEffect(u.name, p, err.Error())
			}
			return
		}
		break
	}
	if !leaves || q.Queue {
		u.free(ctx, p, 0)
	}
}

// request sends one request of a pair for its lock, and checks a grant.
func (u *user) request(ctx context.Context, patience time.Duration, at string, p pair, q lockapi.LockRequest) (g lockapi.Grant, floor uint64, err error) {
	q.Session, q.Handle = p.session, p.handle
	floor = u.w.oracle.floor()
	err = u.send(ctx, patience, at, u.message(http.MethodPut, lockapi.RouteLocks+p.path, q, &g))
	if err == nil && g.State == lockapi.StateHeld {
		u.w.oracle.acquired(u.name, floor, p, g.Token)
	}
	return g, floor, err
}

// isUnknown reports whether the call may have had an effect.
func isUnknown(err error) bool {
	var e *lockapi.Error
	return !errors.As(err, &e) || e.Code == lockapi.CodeOutcomeUnknown
}

// refused checks a refusal, and reports whether it means that the call had no
// effect.
func (u *user) refused(floor uint64, p pair, q *lockapi.LockRequest, err error) bool {
	switch {
	case errors.Is(err, lockapi.CodeLockHeld), errors.Is(err, lockapi.CodeLockDelayed):
		u.w.oracle.obstructed(u.name, floor, q, err.Error(), p.path)
		return true
	}
	return errors.Is(err, lockapi.CodeNoMaster) || errors.Is(err, lockapi.CodeNotMaster)
}

// again reuses a handle, against the contract's advice. It acquires twice and
// sends a late release of the first hold.
func (u *user) again(ctx context.Context, p pair, q lockapi.LockRequest, old uint64) {
	var token uint64
	for range 2 {
		g, _, err := u.request(ctx, 6*time.Second, u.anyone(), p, q)
		if err != nil || g.State != lockapi.StateHeld {
			u.free(ctx, p, 0)
			return
		}
		token = g.Token
	}
	u.free(ctx, p, old)
	u.wait(ctx, 20*time.Millisecond)
	u.free(ctx, p, token)
}

// bareRead reads a lock at one replica.
func (u *user) bareRead(ctx context.Context, at, path string) {
	floor := u.w.oracle.floor()
	var got lockapi.Lock
	if err := u.send(ctx, 10*time.Second, at, u.message(http.MethodGet, lockapi.RouteLocks+path, nil, &got)); err == nil {
		u.w.oracle.read(u.name, floor, got)
	}
}

// bareKeepalive keeps a session alive through one replica. The SDK does not
// learn of it if the session is its own.
func (u *user) bareKeepalive(ctx context.Context, at, session string, wait time.Duration) {
	sent := u.clock.read()
	got, err := u.keepalive(ctx, at, session, wait, sent/time.Millisecond%3 == 0)
	switch {
	case err == nil:
		if u.epochs[session] != got.Epoch {
			u.epochs[session] = got.Epoch
			u.readSession(ctx, u.anyone(), session)
		}
		u.promised[session] = max(u.promised[session], sent+time.Duration(got.HeldMS+got.TTLMS)*time.Millisecond)
	case errors.Is(err, lockapi.CodeSessionNotFound):
		u.w.oracle.lost(u.name, session)
	}
}

// keepalive makes the call, for this session or for a list with only this one.
func (u *user) keepalive(ctx context.Context, at, session string, wait time.Duration, asList bool) (got lockapi.Keepalive, err error) {
	if !asList {
		q := lockapi.KeepaliveRequest{WaitMS: wait.Milliseconds()}
		err = u.send(ctx, 10*time.Second, at, u.message(http.MethodPost, lockapi.RouteSessions+"/"+session+"/keepalive", q, &got))
		return got, err
	}
	var all lockapi.Keepalives
	q := lockapi.KeepalivesRequest{Sessions: []lockapi.SessionAck{{ID: session}}, WaitMS: wait.Milliseconds()}
	switch err := u.send(ctx, 10*time.Second, at, u.message(http.MethodPost, lockapi.RouteKeepalives, q, &all)); {
	case err != nil:
		return got, err
	case all.Sessions[0].Error != nil:
		return got, all.Sessions[0].Error.Err()
	}
	return *all.Sessions[0].Keepalive, nil
}

// free releases the pair's hold or wait. While there are faults it makes one call
// only.
func (u *user) free(ctx context.Context, p pair, token uint64) {
	for !u.freed(ctx, p, token) && u.w.quiet && ctx.Err() == nil {
		u.pace(ctx)
	}
}

// freed makes one such call and reports whether it was answered.
func (u *user) freed(ctx context.Context, p pair, token uint64) bool {
	route := fmt.Sprintf("%s%s?session=%s&handle=%s", lockapi.RouteLocks, p.path, p.session, p.handle)
	if token != 0 {
		route += fmt.Sprintf("&token=%d", token)
	}
	floor, first := u.w.oracle.floor(), !u.releasing[token]
	u.releasing[token] = true
	delete(u.w.oracle.untouched, p)
	var out lockapi.Released
	err := u.send(ctx, 5*time.Second, u.anyone(), u.message(http.MethodDelete, route, nil, &out))
	if err == nil && token != 0 {
		u.w.oracle.gaveBack(u.name, floor, token, out.Released, first)
	}
	if first && token != 0 && (errors.Is(err, lockapi.CodeNoMaster) || errors.Is(err, lockapi.CodeNotMaster)) {
		u.w.oracle.kept(u.name, p, token, err.Error())
	}
	return err == nil || errors.Is(err, lockapi.CodeSessionNotFound)
}

// message is one bare call.
type message struct {
	method, route string
	in, out       any
	raw           []byte      // instead of in
	key           string      // of idempotency, or empty
	header        http.Header // further headers
	reply         http.Header // receives the reply's headers, unless nil
	stays         bool        // it must not be forwarded
}

// body returns the body of the call.
func (m *message) body() *bytes.Reader {
	body := m.raw
	if m.in != nil {
		body, _ = json.Marshal(m.in)
	}
	return bytes.NewReader(body)
}

// message returns a call; some must not be forwarded.
func (u *user) message(method, route string, in, out any) message {
	return message{method: method, route: route, in: in, out: out, stays: u.rng.IntN(4) == 0}
}

// anyone returns the replica to call: any, or one that may still consider
// itself the master.
func (u *user) anyone() string {
	if old := u.w.old; old != nil && u.rng.IntN(2) == 0 {
		return old.id
	}
	return u.w.machines[u.rng.IntN(len(u.w.machines))].id
}

// send makes one call to one replica. The error is a *lockapi.Error if the
// replica has answered.
func (u *user) send(ctx context.Context, patience time.Duration, to string, m message) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, m.method, "http://"+to+m.route, m.body())
	if err != nil {
		panic(err)
	}
	maps.Copy(q.Header, m.header)
	if m.key != "" {
		q.Header.Set(lockapi.HeaderIdempotencyKey, m.key)
	}
	if m.stays {
		q.Header.Set(lockapi.HeaderForward, lockapi.ForwardNever)
	}
	resp, err := u.w.endpoint(u.name, u.ctx).RoundTrip(q)
	if err != nil {
		return err
	}
	raw, _ := io.ReadAll(resp.Body)
	if m.reply != nil {
		maps.Copy(m.reply, resp.Header)
	}
	u.w.trace.note(u.name, "%s %s by %s → %d %s", m.method, m.route, to, resp.StatusCode, bytes.TrimSpace(raw))
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return nil
	case resp.StatusCode < 300:
		return json.Unmarshal(raw, m.out)
	}
	e := new(lockapi.Error)
	if err := json.Unmarshal(raw, e); err != nil {
		u.w.fail("%s answered %s %s with %d and without a problem document: %s", to, m.method, m.route, resp.StatusCode, raw)
	}
	if e.Code == lockapi.CodeInternal {
		u.w.fail("%s answered %s %s with %v", to, m.method, m.route, e)
	}
	return e
}
