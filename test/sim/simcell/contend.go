package simcell

import (
	"context"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// contend lets two handles of the user compete for one lock. The second waits,
// and its call breaks off at about the moment in which the first releases the
// lock. Then it retries at once, several times, or stops without a release.
func (u *user) contend(ctx context.Context, s *client.Session) {
	l := wants[u.rng.IntN(2)]
	first, second := u.newPair(s.ID(), l.path), u.newPair(s.ID(), l.path)
	at := u.anyone()
	token := u.acquire(ctx, at, first, l, 0)
	if token == 0 {
		u.free(ctx, first, 0)
		return
	}
	waiting, breakOff := context.WithCancel(ctx)
	defer breakOff()
	others := u.others(l)
	go u.acquire(waiting, at, second, l, 4*time.Second, others...)
	u.wait(ctx, 50*time.Millisecond)
	go u.free(ctx, first, token)
	u.wait(ctx, 15*time.Millisecond)
	breakOff()
	if u.rng.IntN(3) == 0 {
		return
	}
	for range 5 {
		go u.acquire(ctx, at, second, l, 0, others...)
		time.Sleep(between(u.rng, 50*time.Microsecond, 2*time.Millisecond))
	}
	u.wait(ctx, 500*time.Millisecond)
	u.free(ctx, second, 0)
	for _, path := range others {
		u.free(ctx, pair{second.session, path, second.handle}, 0)
	}
}

// acquire requests a lock, perhaps with others, in one call. It returns the token
// of the grant, or 0.
func (u *user) acquire(ctx context.Context, at string, p pair, l want, wait time.Duration, others ...string) uint64 {
	q := lockapi.LockRequest{Mode: l.mode, Limit: l.max, WaitMS: wait.Milliseconds(), Priority: int64(u.rank(p)), With: others}
	for _, path := range others {
		u.w.oracle.ranked(pair{p.session, path, p.handle}, int(q.Priority))
	}
	g, floor, err := u.request(ctx, 6*time.Second, at, p, q)
	if err != nil || g.State != lockapi.StateHeld {
		return 0
	}
	for _, part := range g.With {
		u.w.oracle.acquired(u.name, floor, pair{p.session, part.Path, p.handle}, part.Token)
	}
	return g.Token
}
