package client

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/client/internal/timing"
	"github.com/stoutlock/stout/lockapi"
)

// State is how far a session can be relied upon.
type State int

// The states of a session. A session in Jeopardy becomes Safe again or Expired;
// Expired is the end.
const (
	// Safe: the local lease runs, so the session and what it holds are alive.
	Safe State = iota
	// Jeopardy: the local lease has ended, and it is unknown whether the session
	// lives. Every hold counts as not held until it is resumed.
	Jeopardy
	// Expired: the session is over, expired or closed; see Err.
	Expired
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case Safe:
		return "safe"
	case Jeopardy:
		return "jeopardy"
	case Expired:
		return "expired"
	}
	return "unknown"
}

// Session is this program's lease on the cell, kept alive in the background
// until Close is called or the session expires. It is safe for concurrent use.
//
// All its state is in its parts, each with its own mutex. If two are needed,
// the lease's is taken first. Under any other part's mutex only that of the
// lines is taken.
type Session struct {
	c    *Client
	id   string
	name string
	ttl  time.Duration

	lease      lease        // its state, and the end of the local lease
	locks      acquisitions // its waits, holds and releases
	keeper     keeper       // keeps it alive
	reconciler reconciler   // compares the local holds with the cell's
	writes     window       // of keyed writes under way
	lines      lines        // to log
}

// NewSession opens a session and keeps it alive. ctx bounds the opening only.
// If ctx ends first, the cell may have an unused session; it holds no lock and
// expires after its ttl.
func (c *Client) NewSession(ctx context.Context, opts ...SessionOption) (*Session, error) {
	req := lockapi.NewSessionRequest()
	for _, opt := range opts {
		opt(&req)
	}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	var opened lockapi.Session
	q := call.Call{
		Method: http.MethodPost, Path: lockapi.RouteSessions, Body: call.Encode(req),
		Out: &opened, Check: verifyOpened, Required: call.Required{TTLMS: req.TTLMS},
	}
	q.Under(rand.Text())
	if err := c.calls.Do(ctx, &q); err != nil {
		return nil, err
	}
	// The server counts from the opening. If there were several attempts, any of
	// them may have opened the session, so the lease counts from the first.
	s := c.startSession(context.WithoutCancel(ctx), opened, q.FirstSent)
	if err := s.lease.awaitSafe(ctx); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// startSession starts the lease and the keeper of a session that was opened by
// a call sent at the given instant.
func (c *Client) startSession(ctx context.Context, opened lockapi.Session, sent time.Duration) *Session {
	s := c.newSession(opened)
	ctx, s.keeper.stop = context.WithCancel(ctx)
	c.metrics.Session(Expired, Safe)
	s.lease.start(max(sent+s.ttl, c.clock.now())) // a jeopardy, if it is one, begins now
	c.limiter.count(1)
	go s.keeper.run(ctx)
	return s
}

func (c *Client) newSession(opened lockapi.Session) *Session {
	s := &Session{c: c, id: opened.ID, name: opened.Name, ttl: time.Duration(opened.TTLMS) * time.Millisecond}
	s.lease.clock, s.lease.grace, s.lease.onChange = c.clock, c.grace, s.onLease
	s.locks.prefix, s.locks.byHandle = rand.Text()[:12]+"-", make(map[string]*acquisition)
	s.keeper.s, s.keeper.stop, s.keeper.stopped, s.keeper.quiet, s.keeper.fresh = s, func() {}, make(chan struct{}), true, true
	s.keeper.epoch.Store(opened.Epoch)
	s.reconciler.s = s
	return s
}

// read reads the state of the session in the cell.
func (s *Session) read(ctx context.Context) (out lockapi.SessionState, err error) {
	q := call.Call{Path: lockapi.RouteSessions + "/" + s.id, Out: &out, Check: verifyState, Required: call.Required{Session: s.id}}
	err = s.c.read(ctx, &q, nil, nil)
	return out, err
}

// onLease applies a change of the lease's state to the other parts, and logs
// it. The lease's mutex is held.
func (s *Session) onLease(was, state State, reason error) {
	s.c.metrics.Session(was, state)
	switch state {
	case Safe:
		s.logs(slog.LevelInfo, "stout: session safe again", "epoch", s.Epoch())
	case Jeopardy:
		s.locks.endHolds(ErrJeopardy)
		s.keeper.poll.end(true) // the machine slept, so the waiting call is useless now
		s.logs(slog.LevelWarn, "stout: session in jeopardy", "epoch", s.Epoch())
	case Expired:
		s.locks.end(reason)
		s.keeper.stop()
		s.logs(slog.LevelInfo, "stout: session over", "reason", reason)
	}
}

// logs logs a line about the session soon. It may be called under a mutex.
func (s *Session) logs(level slog.Level, message string, args ...any) {
	s.lines.add(func() {
		s.c.log.With("session_name", s.name).Log(context.Background(), level, message, args...)
	})
}

// Client returns the client that opened the session; use it for the session's
// reads.
func (s *Session) Client() *Client { return s.c }

// ID returns the session's id. A caller that knows it can act for the session:
// log it with care.
func (s *Session) ID() string { return s.id }

// Name returns the name of the session, perhaps empty.
func (s *Session) Name() string { return s.name }

// TTL returns how long the session lives without a keepalive.
func (s *Session) TTL() time.Duration { return s.ttl }

// Epoch returns the term of office of the master that answered last.
func (s *Session) Epoch() uint64 { return s.keeper.epoch.Load() }

// State returns the session's state at this instant, by the clock: it does not
// wait for a timer to notice that the lease has ended.
func (s *Session) State() State {
	state, _, _ := s.lease.now()
	return state
}

// Changed returns a channel that is closed at the session's next change of
// state. To see the latest state, take the channel first and the state next:
//
//	for {
//		changed := session.Changed()
//		switch session.State() { ... }
//		<-changed
//	}
//
// States that the session passed through in between are not reported. The last
// change is the one to Expired.
func (s *Session) Changed() <-chan struct{} {
	_, changed, _ := s.lease.now()
	return changed
}

// Done returns a channel that is closed when the session is over, expired or
// closed.
func (s *Session) Done() <-chan struct{} { return s.lease.done }

// Err returns nil until Done is closed, and then ErrSessionExpired or
// ErrSessionClosed.
func (s *Session) Err() error { return s.lease.over() }

// Remaining returns the time left of the local lease, and 0 in jeopardy and
// after. Its clock keeps running while the machine sleeps (on Linux).
func (s *Session) Remaining() time.Duration { return s.lease.remaining() }

// ValidUntil returns the end of the local lease, unless it is extended, on the
// present wall clock: for display to people. Decisions use Remaining, which
// does not depend on the wall clock's setting.
func (s *Session) ValidUntil() time.Time {
	return time.Now().Round(0).Add(s.lease.end.get() - s.c.clock.now())
}

// Close ends the session here and in the cell, where all its locks are free at
// once. Under a cancelled context it still works, for a few seconds. If the
// cell cannot be reached, Close returns an error, and the session expires there
// after its ttl, which begins anew if a new master is elected. It tries until ctx ends,
// and for one ttl if ctx has no deadline. Close may be called again; after an expiry
// it has no effect.
func (s *Session) Close(ctx context.Context) error {
	reason := s.lease.finish(ErrSessionClosed)
	if _, bounded := ctx.Deadline(); !bounded {
		within, cancel := context.WithTimeout(ctx, s.ttl)
		defer cancel()
		ctx = within
	}
	ctx, _, done := outlast(ctx, releaseTime)
	defer done()
	defer func() { // a logger may block
		_ = timing.Await(ctx, s.keeper.stopped)
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = timing.Await(soon, s.lines.written())
	}()
	if errors.Is(reason, ErrSessionExpired) {
		return nil
	}
	return s.c.calls.Do(ctx, &call.Call{Method: http.MethodDelete, Path: lockapi.RouteSessions + "/" + s.id, Query: "quiet=true", Status: http.StatusNoContent})
}

// isNoSession reports whether the cell answered that it does not know the
// session.
func isNoSession(err error) bool {
	return call.IsAnswer(err) && errors.Is(err, lockapi.CodeSessionNotFound)
}

// expire ends the session because the cell no longer knows it.
func (s *Session) expire() error { return s.lease.finish(ErrSessionExpired) }
