package simcell

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// These are a user's actions through the SDK.

// lock takes a lock through the SDK, works, and releases it.
func (u *user) lock(ctx context.Context, s *client.Session, l want) {
	opts := append(l.options(), client.Wait(between(u.rng, 10*time.Millisecond, 8*time.Second)), client.LockDelay(u.delay()))
	rank := u.rank(pair{session: s.ID(), path: l.path})
	opts = append(opts, client.Priority(rank), u.with(s, u.others(l), rank))
	floor := u.w.oracle.floor()
	calling, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var h *client.Held
	var err error
	if u.rng.IntN(3) == 0 && !u.w.quiet {
		h, err = s.TryLock(calling, l.path, opts...)
	} else {
		h, err = s.Lock(calling, l.path, opts...)
	}
	if err != nil || ctx.Err() != nil {
		u.pace(ctx)
		return
	}
	u.holds(floor, h, s, l)
	if n := len(h.Sequencers()); !u.w.quiet && (u.rng.IntN(10) == 0 || n > 1 && u.ranks.IntN(3) == 0) {
		u.losesByForce(ctx, s, h)
	}
	if u.rng.IntN(4) == 0 && !u.w.quiet {
		u.whileHeld(ctx, s, h)
	}
	u.works(ctx)
	if u.rng.IntN(4) == 0 && h.Err() == nil {
		u.checkSequencer(ctx, h)
	}
	u.former = h
	if u.rng.IntN(12) == 0 && !u.w.quiet {
		u.forgotten[h.Handle()] = true // the hold lasts as long as the session
		if u.held == h {
			u.held = nil
		}
		return
	}
	unlocking, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	err = h.Unlock(unlocking)
	if u.held == h {
		u.held = nil
	}
	if err == nil && ctx.Err() == nil {
		for _, q := range locksOf(h) {
			u.w.oracle.released(u.name, q.Token)
		}
		u.served[l.path] = u.w.quiet
		if !u.w.quiet {
			delete(u.served, l.path)
		}
	}
}

// options returns the SDK's options for the lock.
func (l want) options() (opts []client.LockOption) {
	if l.mode == lockapi.Shared {
		opts = append(opts, client.Shared())
	}
	if l.max > 0 {
		opts = append(opts, client.Limit(int(l.max)))
	}
	return opts
}

// pace pauses a program after calls that fail at once.
func (u *user) pace(ctx context.Context) { u.wait(ctx, 20*time.Millisecond) }

// holds checks a grant of the SDK against the holds of other users.
func (u *user) holds(floor uint64, h *client.Held, s *client.Session, l want) {
	if h.Err() != nil {
		return
	}
	if len(h.Sequencers()) > 1 {
		u.w.stats.check("several locks through the SDK")
	}
	for _, q := range locksOf(h) {
		u.w.oracle.acquired(u.name, floor, pair{s.ID(), q.Path, h.Handle()}, q.Token)
		u.w.trace.note(u.name, "holds %s with token %d", q.Path, q.Token)
		u.shares(h, q, l)
	}
	u.held = h
}

// shares checks one lock of a hold against the holds of other users.
func (u *user) shares(h *client.Held, q lockapi.Sequencer, l want) {
	sharing := int64(1)
	for _, other := range u.w.users {
		o := other.held
		token := other.counts(q.Path)
		if other == u || token == 0 || other.forced == o || u.w.oracle.byForce(other.session) {
			continue
		}
		sharing++
		if h.Mode() == lockapi.Exclusive || o.Mode() == lockapi.Exclusive {
			u.w.fail("%s and %s both count on %s, with tokens %d and %d", u.name, other.name, q.Path, q.Token, token)
		}
	}
	if l.max > 0 && sharing > l.max {
		u.w.fail("%d users count on %s, which has a limit of %d", sharing, q.Path, l.max)
	}
}

// counts returns the token of the lock under which the user works, or 0. It
// relies on the context, as programs do that do not check the time.
func (u *user) counts(path string) uint64 {
	if u.held == nil || u.held.Context().Err() != nil {
		return 0
	}
	for _, q := range locksOf(u.held) {
		if q.Path == path {
			return q.Token
		}
	}
	return 0
}

// losesByForce has an operator release the user's hold. The hold's context ends with
// the local lease at the latest: no keepalive may extend the lease without the news.
func (u *user) losesByForce(ctx context.Context, s *client.Session, h *client.Held) {
	if u.w.oracle.latest().Level < 5 { // losses are not kept
		return
	}
	u.forced = h
	var answer lockapi.Released
	all := locksOf(h)
	q := all[u.ranks.IntN(len(all))]
	route := lockapi.RouteLocks + q.Path + "?" + url.Values{"session": {s.ID()}, "handle": {h.Handle()}, "token": {fmt.Sprint(q.Token)}, "by_force": {"true"}}.Encode()
	if u.send(ctx, 5*time.Second, u.anyone(), u.message(http.MethodDelete, route, nil, &answer)) != nil || !answer.Released {
		return
	}
	if q.Path != h.Path() {
		u.w.stats.check("a forced release of one of several locks")
	}
	u.w.trace.note(u.name, "loses %s with token %d by force", q.Path, q.Token)
	late := time.NewTimer(2 * s.TTL())
	defer late.Stop()
	select {
	case <-h.Done():
		u.w.stats.check("a forced release ends the hold's context")
	case <-ctx.Done():
	case <-late.C:
		if h.Err() == nil {
			u.w.fail("%s does not learn that token %d on %s was released by force", u.name, q.Token, q.Path)
		}
	}
}

// sweepWithin is how long the SDK may take, in a healthy cell, to release
// holds and waits that its user does not know.
const sweepWithin = 30 * time.Second

// sweeps checks that the SDK leaves no hold or wait in the cell that its user does not
// know.
func (u *user) sweeps(ctx context.Context, s *client.Session) {
	for until := u.w.now() + sweepWithin; ctx.Err() == nil && s.Err() == nil; u.wait(ctx, time.Second) {
		left := u.strays(s.ID())
		if left == "" {
			u.w.stats.check("no leftover hold or wait")
			return
		}
		if u.w.now() > until {
			u.w.fail("the SDK of %s leaves %s in the cell", u.name, left)
			return
		}
	}
}

// strays returns a hold or wait of the session that its user has given up, or "". It
// considers the SDK's handles except forgotten ones, and except those with a
// late copy of a call.
func (u *user) strays(session string) string {
	u.w.oracle.look()
	copies := u.w.oracle.copies
	for hold, wait := range u.w.oracle.latest().HoldsAndWaits(session) {
		if wait != nil && !isBare(wait.Handle) && !copies[pair{session, wait.Path, wait.Handle}] {
			return fmt.Sprintf("place %d at %s", wait.Seq, wait.Path)
		}
		if hold != nil && !isBare(hold.Handle) && !u.forgotten[hold.Handle] && !copies[pair{session, hold.Path, hold.Handle}] {
			return fmt.Sprintf("token %d at %s", hold.Token, hold.Path)
		}
	}
	return ""
}

func (u *user) checkSequencer(ctx context.Context, h *client.Held) {
	floor := u.w.oracle.floor()
	calling, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	got, err := u.client.CheckSequencer(calling, h.Sequencer())
	if err == nil {
		u.w.oracle.checked(u.name, floor, h.Path(), h.Token(), got.Valid)
	}
}

func (u *user) read(ctx context.Context, path string) {
	floor := u.w.oracle.floor()
	calling, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if got, err := u.client.ReadLock(calling, path); err == nil {
		u.w.oracle.read(u.name, floor, got)
	} else {
		u.pace(ctx)
	}
}
