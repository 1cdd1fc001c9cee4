package client

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// stray is a grant or a place in a queue that nobody here knows of.
type stray struct{ path, handle string }

// review compares what is held here with what the cell says, when there is
// reason to: a new master is in office, or a request's fate is not known. Holds
// that the cell does not know of are lost; holds and waits that nobody here
// knows of are released. What fails is taken up at the next keepalive. It takes
// a turn, since all sessions of a client have a new master at once.
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
	for _, one := range s.compare(held, &state) {
		q := releaseCall(one.path, s.id, one.handle, 0)
		if err := s.c.do(ctx, &q); err != nil {
			return
		}
	}
	s.endReview()
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

// compare marks the holds that are lost and returns the strays.
func (s *Session) compare(held map[string]uint64, state *lockapi.SessionState) []stray {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspect = false
	var strays []stray
	there := make(map[string]uint64)
	for _, h := range state.Holds {
		if cl := s.claims[h.Handle]; cl != nil && cl.path == h.Path {
			there[h.Handle] = h.Token
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
		cl := s.claims[handle]
		if cl != nil && cl.phase == holding && cl.token == token && there[handle] != token {
			s.lose(cl)
		}
	}
	if len(strays) > 0 {
		s.sweeps = max(s.sweeps, 1) // until their release has been seen through
	}
	return strays
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
