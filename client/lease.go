package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/internal/boottime"
)

// wakeEvery bounds how late the end of the lease is noticed on a clock that is
// the caller's own: Go's timers may stand still while that goes on.
const wakeEvery = time.Second

// timer calls a function once, some time after it was set: *time.Timer, or
// *boottime.Timer.
type timer interface {
	Reset(time.Duration) bool
	Stop() bool
}

// afterFunc makes a timer by the clock that leases are counted on, for a function
// that looks at that clock and sets the timer again: it may be called early.
func (c *Client) afterFunc(d time.Duration, f func()) timer {
	if c.ownTimers {
		return boottime.AfterFunc(d, f)
	}
	return time.AfterFunc(min(d, wakeEvery), f)
}

// instant is one on the client's clock. It is written with the session's mutex
// held, and may be read without.
type instant struct{ ns atomic.Int64 }

func (i *instant) get() time.Duration  { return time.Duration(i.ns.Load()) }
func (i *instant) set(d time.Duration) { i.ns.Store(int64(d)) }

// look lets the clock's verdict take effect. Every method that tells or changes
// the session's state calls it first, with s.mu held.
func (s *Session) look() {
	now := s.c.now()
	if s.state == Safe && now >= s.validUntil.get() {
		s.state = Jeopardy
		s.c.log.Warn("stout: session in jeopardy", "session_name", s.name, "epoch", s.epoch)
		s.endHolds(ErrJeopardy)
		s.announce()
		if s.longPoll {
			s.cutPoll() // the machine slept meanwhile: what waits is of no use now
		}
	}
	if s.state == Jeopardy && now >= s.validUntil.get()+s.c.grace {
		s.finish(ErrSessionExpired)
	}
}

// extend moves the end of the local lease, never to an earlier instant, and
// ends a jeopardy. s.mu is held.
func (s *Session) extend(until time.Duration) {
	s.look()
	if s.state == Expired || until <= s.validUntil.get() {
		return
	}
	s.validUntil.set(until)
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
	due := s.validUntil.get()
	if s.state == Jeopardy {
		due += s.c.grace
	}
	due = max(due-now, 0)
	if s.c.ownTimers {
		return due
	}
	return min(due, wakeEvery)
}

func (s *Session) remainingLocked() time.Duration {
	if s.state != Safe {
		return 0
	}
	return max(s.validUntil.get()-s.c.now(), 0)
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
