package client

import (
	"context"
	"time"
)

// wakeEvery bounds how late the end of the lease is noticed after the machine
// slept: timers stand still meanwhile, the lease does not.
const wakeEvery = time.Second

// look lets the clock's verdict take effect. Every method that tells or changes
// the session's state calls it first, with s.mu held.
func (s *Session) look() {
	now := s.c.now()
	if s.state == Safe && now >= s.validUntil {
		s.state = Jeopardy
		s.c.log.Warn("stout: session in jeopardy", "session_name", s.name, "epoch", s.epoch)
		s.endHolds(ErrJeopardy)
		s.announce()
	}
	if s.state == Jeopardy && now >= s.validUntil+s.c.grace {
		s.finish(ErrSessionExpired)
	}
}

// extend moves the end of the local lease, never to an earlier instant, and
// ends a jeopardy. s.mu is held.
func (s *Session) extend(until time.Duration) {
	s.look()
	if s.state == Expired || until <= s.validUntil {
		return
	}
	s.validUntil = until
	if s.state == Jeopardy && s.c.now() < until {
		s.state = Safe
		s.c.log.Info("stout: session safe again", "session_name", s.name, "epoch", s.epoch)
		s.announce()
	}
}

// finish ends the session for the given reason, once. s.mu is held.
func (s *Session) finish(reason error) {
	if s.state == Expired {
		return
	}
	s.state, s.err = Expired, reason
	s.c.log.Info("stout: session over", "session_name", s.name, "reason", reason)
	s.endHolds(reason)
	for _, cl := range s.claims {
		cl.cutOff()
	}
	clear(s.claims)
	s.timer.Stop()
	s.stop()
	close(s.done)
	s.announce()
}

// expire ends the session because the cell no longer knows it.
func (s *Session) expire() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(ErrSessionExpired)
	return s.err
}

func (s *Session) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// wake is the timer's only job: to have the clock read when it may matter.
func (s *Session) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	if s.state != Expired {
		s.timer.Reset(s.wakeIn(s.c.now()))
	}
}

func (s *Session) wakeIn(now time.Duration) time.Duration {
	due := s.validUntil
	if s.state == Jeopardy {
		due += s.c.grace
	}
	return min(max(due-now, 0), wakeEvery)
}

func (s *Session) remainingLocked() time.Duration {
	if s.state != Safe {
		return 0
	}
	return s.validUntil - s.c.now()
}

// awaitSafe returns once the session is safe, or with the reason why it will
// not be, or when ctx ends.
func (s *Session) awaitSafe(ctx context.Context) error {
	for {
		s.mu.Lock()
		s.look()
		state, err, changed := s.state, s.err, s.changed
		s.mu.Unlock()
		switch state {
		case Safe:
			return nil
		case Expired:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
