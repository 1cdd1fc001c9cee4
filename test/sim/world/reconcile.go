package world

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// reconcile reads the session of a pair whose call was told that its outcome is
// unknown, as a client does after a change of master, and takes what it shows at its
// word: a hold is there and stays, unless it shows for how long it may be claimed. The
// pair's own is claimed by asking again, sometimes.
func (u *user) reconcile(ctx context.Context, p pair, q lockapi.LockRequest) {
	for range 1 + u.rng.IntN(3) {
		floor := u.w.judge.floor()
		var got lockapi.SessionState
		m := u.message(http.MethodGet, lockapi.RouteSessions+"/"+p.session, nil, &got)
		err := u.send(ctx, 5*time.Second, u.anyone(), m)
		if errors.Is(err, lockapi.CodeSessionNotFound) {
			u.w.judge.lost(u.name, p.session)
			return
		}
		for _, h := range got.Holds {
			shown := pair{p.session, h.Path, h.Handle}
			if h.UnclaimedMS == 0 {
				u.w.stats.check("read of a hold")
				u.w.judge.acquired(u.name, floor, shown, h.Token)
				continue
			}
			u.w.stats.check("read of an unclaimed hold")
			if shown == p && u.rng.IntN(2) == 0 && u.claims(ctx, p, q) {
				return
			}
		}
		u.wait(ctx, 2*time.Second)
	}
}

// claims asks again for what the session shows, and gives it back after some work.
func (u *user) claims(ctx context.Context, p pair, q lockapi.LockRequest) bool {
	floor := u.w.judge.floor()
	q.WaitMS, q.Queue = 0, false
	var g lockapi.Grant
	err := u.send(ctx, 5*time.Second, u.anyone(), u.message(http.MethodPut, lockapi.RouteLocks+p.path, q, &g))
	if err != nil || g.State != lockapi.StateHeld {
		return false
	}
	u.w.judge.acquired(u.name, floor, p, g.Token)
	u.works(ctx)
	u.free(ctx, p, g.Token)
	return true
}
