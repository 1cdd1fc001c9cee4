package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// stray is a grant or a place in a queue that nobody here knows of.
type stray struct{ path, handle string }

// review compares what is held here with what the cell says, when there is
// reason to: a new master is in office, or a request's fate is not known. Holds
// that the cell does not know of are lost; holds and waits that nobody here
// knows of are released; holds that the cell may take back, because it does not
// know that we were told of them, are claimed. What fails is taken up at the next
// keepalive. It takes a turn, since all sessions of a client have a new master at
// once.
func (s *Session) review(ctx context.Context) {
	held, due := s.beginReview()
	if !due || !s.takeTurn(ctx) {
		return
	}
	defer s.c.turns.give()
	// It has a turn meanwhile, which others need: a long ttl is no reason to keep it.
	ctx, cancel := context.WithTimeout(ctx, min(max(s.ttl/6, 200*time.Millisecond), 2*time.Second))
	defer cancel()
	state, err := s.c.ReadSession(ctx, s.id)
	if errors.Is(err, lockapi.CodeSessionNotFound) {
		_ = s.expire()
		return
	}
	if err != nil {
		s.c.log.Debug("stout: review failed", "session_name", s.name, "error", err)
		return
	}
	strays, unclaimed := s.compare(held, &state)
	for _, cl := range unclaimed { // first: they wait for so long only
		if !s.reclaim(ctx, cl) {
			return
		}
	}
	for _, one := range strays {
		q := releaseCall(one.path, s.id, one.handle, 0)
		if err := s.c.do(ctx, &q); err != nil {
			return
		}
	}
	s.endReview()
}

// reclaim asks again for what a claim holds, which makes the grant its own. It
// reports whether there was an answer.
func (s *Session) reclaim(ctx context.Context, cl *claim) bool {
	req := cl.req
	req.WaitMS, req.Queue = 0, false
	var grant lockapi.Grant
	q := call{method: http.MethodPut, path: lockapi.RouteLocks + cl.path, body: encode(&req), out: &grant, check: verifyGrant, want: cl.wanted(&req)}
	err := s.c.do(ctx, &q)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, lockapi.CodeSessionNotFound):
		s.finish(ErrSessionExpired)
	case err == nil && grant.Token == cl.token:
	case err == nil, leavesNothing(err):
		s.loseHeld(cl, cl.token) // it had been taken back before
	}
	if cl.phase != holding || q.unsettled {
		s.expectStrays() // what was asked for may have been granted since
	}
	return err == nil || leavesNothing(err)
}

// takeTurn waits for a turn, but not for so long that the next keepalive would
// be late: after that the review is due still.
func (s *Session) takeTurn(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, s.Remaining()-s.ttl/3)
	defer cancel()
	return s.c.turns.take(ctx)
}

// beginReview lists what is held before the cell is asked, so that a grant or a
// release that happens meanwhile misleads nobody.
func (s *Session) beginReview() (held map[string]uint64, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.suspect && s.sweeps == 0 {
		return nil, false
	}
	s.overdue = true
	held = make(map[string]uint64)
	for handle, cl := range s.claims {
		if cl.phase == holding {
			held[handle] = cl.token
		}
	}
	return held, true
}

// compare marks the holds that are lost, and returns the strays and the claims
// whose holds the cell may take back.
func (s *Session) compare(held map[string]uint64, state *lockapi.SessionState) (strays []stray, unclaimed []*claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspect = false
	there := make(map[string]uint64)
	for _, h := range state.Holds {
		if cl := s.claims[h.Handle]; cl != nil && cl.path == h.Path {
			there[h.Handle] = h.Token
			switch {
			case h.UnclaimedMS == 0:
			case cl.phase == waiting:
				cl.cutOff() // to be asked for again
			case cl.phase == holding && cl.token == h.Token:
				unclaimed = append(unclaimed, cl)
			}
		}
		if s.isStray(h.Path, h.Handle) {
			strays = append(strays, stray{h.Path, h.Handle})
		}
	}
	for _, w := range state.Waits {
		if s.isStray(w.Path, w.Handle) {
			strays = append(strays, stray{w.Path, w.Handle})
		}
	}
	for handle, token := range held {
		if cl := s.claims[handle]; cl != nil && there[handle] != token {
			s.loseHeld(cl, token)
		}
	}
	if len(strays)+len(unclaimed) > 0 {
		s.sweeps = max(s.sweeps, 1) // until that has been seen through
	}
	return strays, unclaimed
}

// loseHeld ends a claim's hold with that token, if it is not done yet. s.mu is held.
func (s *Session) loseHeld(cl *claim, token uint64) {
	if cl.phase == holding && cl.token == token {
		s.lose(cl)
	}
}

// isStray says whether a handle was made up here and has no claim any more, at
// what can be a lock's path.
func (s *Session) isStray(path, handle string) bool {
	_, known := s.claims[handle]
	return !known && strings.HasPrefix(handle, s.prefix) && lockapi.ValidatePath(path) == nil && lockapi.ValidateHandle(handle) == nil
}

// lose ends a hold that the cell no longer knows of. s.mu is held.
func (s *Session) lose(cl *claim) {
	s.c.log.Warn("stout: lock lost", "session_name", s.name, "path", cl.path, "token", cl.token, "epoch", s.epoch)
	cl.phase = gone
	delete(s.claims, cl.handle)
	cl.held.cancel(ErrLockLost)
}

func (s *Session) endReview() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overdue = false
	if s.sweeps > 1 || s.c.now() >= s.sweepUntil {
		s.sweeps = max(s.sweeps-1, 0)
	}
}
