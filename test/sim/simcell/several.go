package simcell

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// In half of the runs users take several locks with one request. The model
// grants and ends such requests; the oracle checks the grant of each lock as if
// it were the only one.

// others draws the locks that a request for l also asks for, mostly none.
func (u *user) others(l want) (paths []string) {
	if !u.w.profile.sets || u.w.quiet || l.mode != lockapi.Exclusive || u.ranks.IntN(2) == 0 {
		return nil
	}
	for _, i := range u.ranks.Perm(len(wants)) {
		if w := wants[i]; w.path != l.path && w.max == 0 && len(paths) < 2 {
			paths = append(paths, w.path)
		}
	}
	return paths[:1+u.ranks.IntN(2)]
}

// with returns the SDK's option for further locks at that priority.
func (u *user) with(s *client.Session, paths []string, priority int) client.LockOption {
	for _, path := range paths {
		u.w.oracle.ranked(pair{session: s.ID(), path: path}, priority)
	}
	return client.With(paths...)
}

// locksOf returns the path and token of each lock of a hold.
func locksOf(h *client.Held) (all []lockapi.Sequencer) {
	for _, sequencer := range h.Sequencers() {
		q, err := lockapi.ParseSequencer(sequencer)
		if err != nil {
			panic(err)
		}
		all = append(all, q)
	}
	return all
}

// several takes several locks by bare HTTP, as bare does. A repeated request may
// name them in another order.
func (u *user) several(ctx context.Context, s *client.Session, l want, others []string) {
	first := u.newPair(s.ID(), l.path)
	q := lockapi.LockRequest{
		Session: first.session, Handle: first.handle, Mode: l.mode, Queue: u.rng.IntN(3) == 0,
		LockDelayMS: u.delay().Milliseconds(), Priority: int64(u.rank(first)), With: others,
	}
	if u.rng.IntN(3) > 0 {
		q.WaitMS = between(u.rng, time.Millisecond, 4*time.Second).Milliseconds()
	}
	pairs := []pair{first}
	for _, path := range others {
		p := pair{first.session, path, first.handle}
		u.w.oracle.ranked(p, int(q.Priority))
		pairs = append(pairs, p)
	}
	keeps := q.Queue
	for answered := true; ; {
		floor := u.w.oracle.floor()
		var g lockapi.Grant
		patience := between(u.rng, 5*time.Millisecond, u.w.profile.patience)
		if !keeps && u.rng.IntN(4) == 0 { // another call keeps the place
			kept, path := q, pairs[0].path
			kept.Queue, keeps = true, true
			go func() {
				u.wait(ctx, 100*time.Millisecond)
				var g lockapi.Grant
				_ = u.send(ctx, patience, u.anyone(), u.message(http.MethodPut, lockapi.RouteLocks+path, kept, &g))
			}()
		}
		err := u.send(ctx, patience, u.anyone(), u.message(http.MethodPut, lockapi.RouteLocks+pairs[0].path, q, &g))
		switch {
		case err == nil && g.State == lockapi.StateHeld:
			tokens := []uint64{g.Token}
			for _, part := range g.With {
				tokens = append(tokens, part.Token)
			}
			if len(tokens) != len(pairs) {
				u.w.fail("%s requested %d locks and got %d", u.name, len(pairs), len(tokens))
				return
			}
			for i, p := range pairs {
				u.w.oracle.acquired(u.name, floor, p, tokens[i])
			}
			u.w.stats.check("several locks by bare HTTP")
			u.works(ctx)
			for i, p := range pairs {
				u.free(ctx, p, tokens[i])
			}
			return
		case errors.Is(err, lockapi.CodeSessionNotFound):
			u.w.oracle.lost(u.name, first.session)
			return
		case err == nil:
			u.wait(ctx, time.Second)
		case isUnknown(err):
			answered = false
		default:
			if held := errors.Is(err, lockapi.CodeLockHeld) || errors.Is(err, lockapi.CodeLockDelayed); held && answered && !keeps {
				u.w.oracle.obstructed(u.name, floor, &q, err.Error(), paths(pairs)...)
				for _, p := range pairs {
					u.w.oracle.hadNoEffect(u.name, p, err.Error())
				}
				return
			}
			u.pace(ctx)
		}
		if ctx.Err() != nil || u.rng.IntN(3) == 0 {
			break
		}
		pairs[0], pairs[1] = pairs[1], pairs[0]
		q.With = paths(pairs)[1:]
	}
	if keeps || u.rng.IntN(3) > 0 || u.w.quiet {
		for _, p := range pairs {
			u.free(ctx, p, 0)
		}
	}
}

func paths(pairs []pair) (all []string) {
	for _, p := range pairs {
		all = append(all, p.path)
	}
	return all
}
