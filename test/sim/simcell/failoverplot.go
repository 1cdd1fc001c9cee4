package simcell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// handoverLock is a lock that only the plot waiterFailover uses.
var handoverLock = want{path: "/handoverLock", mode: lockapi.Exclusive}

// waiterFailover: a client waits for a lock in a place that is not kept,
// mastership moves, and the lock is released. The client reads its session
// because its call got no answer, and retries or does not.
func (w *world) waiterFailover(old, next *machine) {
	first, second := w.anyUser(), w.anyUser()
	held := make(chan struct{})
	go first.holdFirst(first.ctx, held)
	select {
	case <-held:
	case <-time.After(time.Second):
		return
	}
	go second.waitSecond(second.ctx)
	w.until(between(w.script, 10*time.Millisecond, 200*time.Millisecond))
	switch w.script.IntN(3) {
	case 0:
		w.handOver(old, next)
	case 1:
		old.crash()
		w.later(between(w.script, 10*time.Millisecond, time.Second), func() { old.restart(false) })
		w.campaign(next)
	default:
		w.part(old)
		w.later(between(w.script, 10*time.Millisecond, 4*time.Second), w.heal)
		w.campaign(next)
	}
	w.old = old
	w.soon(func() bool { return w.leader(old) != nil })
	w.until(between(w.script, 10*time.Millisecond, 2*time.Second))
}

// plotSession opens a session for one plot.
func (u *user) plotSession(ctx context.Context) string {
	u.handles++
	return u.open(ctx, u.anyone(), fmt.Sprintf("life-%s-%d", u.name, u.handles), between(u.rng, 2*time.Second, 8*time.Second))
}

// holdFirst takes the handoverLock, reports that, and releases it after a
// while, as soon as a call is answered.
func (u *user) holdFirst(ctx context.Context, held chan<- struct{}) {
	id := u.plotSession(ctx)
	if id == "" {
		return
	}
	p := u.newPair(id, handoverLock.path)
	token := u.acquire(ctx, u.anyone(), p, handoverLock, 0)
	if token == 0 {
		return
	}
	close(held)
	u.wait(ctx, 3*time.Second)
	for !u.freed(ctx, p, token) && ctx.Err() == nil && !u.w.isOver() {
		u.pace(ctx)
	}
}

// waitSecond waits for the handoverLock with one call, or for a set that
// contains it.
func (u *user) waitSecond(ctx context.Context) {
	if s := u.session; s != nil && u.w.profile.sets && u.ranks.IntN(2) == 0 {
		u.waitForSet(ctx, s.ID())
		return
	}
	id := u.plotSession(ctx)
	if id == "" {
		return
	}
	p := u.newPair(id, handoverLock.path)
	q := lockapi.LockRequest{Mode: handoverLock.mode, WaitMS: 6000}
	g, floor, err := u.request(ctx, 7*time.Second, u.anyone(), p, q)
	switch {
	case err == nil:
		u.free(ctx, p, g.Token)
	case errors.Is(err, lockapi.CodeSessionNotFound):
		u.w.oracle.lost(u.name, id)
	case isUnknown(err):
		u.reconciles(ctx, p, q)
	case u.refused(floor, p, &q, err):
		u.w.oracle.hadNoEffect(u.name, p, err.Error())
	}
}

// waitForSet waits for the handoverLock and another lock, with calls that name
// them in any order until one is answered. It keeps the grant for longer than a
// master waits for callers that do not repeat their calls.
func (u *user) waitForSet(ctx context.Context, session string) {
	first := u.newPair(session, handoverLock.path)
	second := pair{session, handoverLock.path + "/also", first.handle}
	for ctx.Err() == nil && !u.w.isOver() {
		q := lockapi.LockRequest{
			Mode: handoverLock.mode, WaitMS: 6000, With: []string{second.path},
		}
		g, floor, err := u.request(ctx, 7*time.Second, u.anyone(), first, q)
		switch {
		case err == nil && len(g.With) == 1:
			u.w.oracle.acquired(u.name, floor, second, g.With[0].Token)
			u.wait(ctx, 12*time.Second)
		case errors.Is(err, lockapi.CodeSessionNotFound):
			u.w.oracle.lost(u.name, session)
			return
		case isUnknown(err):
			first, second = second, first
			u.pace(ctx)
			continue
		}
		break
	}
	u.free(ctx, first, 0)
	u.free(ctx, second, 0)
}
