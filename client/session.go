package client

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// State says how far a session can be relied upon.
type State int

// The states of a session. A session in Jeopardy becomes Safe again or Expired;
// Expired is the end.
const (
	// Safe: the local lease runs, so the session and what it holds are alive.
	Safe State = iota
	// Jeopardy: the local lease has ended, and whether the session lives is not
	// known. Everything held counts as not held until it is resumed.
	Jeopardy
	// Expired: the session is over, expired or closed; Err tells which.
	Expired
)

// String is the state's name in lower case.
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
type Session struct {
	c      *Client
	id     string
	name   string
	ttl    time.Duration
	prefix string // of the handles made up here

	done    chan struct{}      // closed when the session is over
	stop    context.CancelFunc // ends the background loop
	stopped chan struct{}      // closed when the loop has ended

	mu         sync.Mutex
	validUntil instant // end of the local lease
	state      State
	err        error
	epoch      uint64
	ack        uint64 // highest event seen
	changed    chan struct{}
	timer      timer
	serial     uint64             // of the last handle made up
	claims     map[string]*claim  // by handle: what is wanted, held or being released
	suspect    bool               // a new master is in office: compare what is held
	sweeps     int                // how many more times to look for grants that nobody here knows of
	sweepUntil time.Duration      // and not to stop before
	overdue    bool               // the last such look failed
	cutPoll    context.CancelFunc // ends the keepalive under way
	longPoll   bool               // which waits at the server
}

// NewSession opens a session and keeps it alive. ctx bounds the opening only.
// If ctx ends meanwhile, a session may have been opened in vain; it holds
// nothing and expires after its ttl.
func (c *Client) NewSession(ctx context.Context, opts ...SessionOption) (*Session, error) {
	req := lockapi.NewSessionRequest()
	for _, opt := range opts {
		opt(&req)
	}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	var opened lockapi.Session
	q := call{
		method: http.MethodPost, path: lockapi.RouteSessions, body: encode(req),
		key: rand.Text(), out: &opened, check: verifyOpened, want: wanted{ttlMS: req.TTLMS},
	}
	if err := c.do(ctx, &q); err != nil {
		return nil, err
	}
	// The server counts from the opening. Where several attempts were sent, any
	// of them may have been the one that opened the session, so the lease
	// counts from the first.
	s := c.startSession(context.WithoutCancel(ctx), opened, q.firstSent)
	if err := s.awaitSafe(ctx); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

func (c *Client) startSession(ctx context.Context, opened lockapi.Session, sent time.Duration) *Session {
	ttl := time.Duration(opened.TTLMS) * time.Millisecond
	s := &Session{
		c: c, id: opened.ID, name: opened.Name, ttl: ttl, prefix: rand.Text()[:12] + "-",
		done: make(chan struct{}), stopped: make(chan struct{}), changed: make(chan struct{}),
		epoch: opened.Epoch, claims: make(map[string]*claim),
	}
	s.validUntil.set(max(sent+ttl, c.now())) // a jeopardy, if it is one, begins now
	ctx, s.stop = context.WithCancel(ctx)
	s.mu.Lock()
	s.timer = c.afterFunc(s.wakeIn(c.now()), s.wake)
	s.mu.Unlock()
	c.turns.count(1)
	go s.run(ctx)
	return s
}

// ID is the session's id. Whoever knows it can act for the session: log it with
// care.
func (s *Session) ID() string { return s.id }

// Name is the name that the session was given, perhaps empty.
func (s *Session) Name() string { return s.name }

// TTL is for how long the session lives without a keepalive.
func (s *Session) TTL() time.Duration { return s.ttl }

// Epoch is the term of office of the master that answered last.
func (s *Session) Epoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

// State is the session's state at this instant, by the clock: it does not wait
// for a timer to notice that the lease has ended.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	return s.state
}

// Changed returns a channel that is closed at the session's next change of
// state. To follow all that matters, take the channel first and the state next:
//
//	for {
//		changed := session.Changed()
//		switch session.State() { ... }
//		<-changed
//	}
//
// States that were passed through in between are not reported. The last change
// is the one to Expired.
func (s *Session) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	return s.changed
}

// Done is closed when the session is over, expired or closed.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err is nil until Done is closed, and then ErrSessionExpired or
// ErrSessionClosed.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	return s.err
}

// Remaining is what is left of the local lease, and 0 in jeopardy and after.
// It is read off a clock that goes on while the machine sleeps (on Linux).
func (s *Session) Remaining() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	return s.remainingLocked()
}

// ValidUntil is when the local lease ends unless it is extended, on the wall
// clock as it stands now: to show to a person. Decisions go by Remaining, which
// no setting of the clock can mislead.
func (s *Session) ValidUntil() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Round(0).Add(s.validUntil.get() - s.c.now())
}

// Close ends the session here and in the cell, where all that it holds is free
// at once. It works under a cancelled context, for a few seconds. Where the
// cell cannot be reached the error says so; the session then expires there
// after its ttl. Like every call it tries until ctx ends, so give it a deadline.
// Close may be called again; after an expiry it does nothing.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	s.look()
	expired := s.state == Expired && errors.Is(s.err, ErrSessionExpired)
	s.finish(ErrSessionClosed)
	s.mu.Unlock()
	<-s.stopped
	if expired {
		return nil
	}
	ctx, _, done := outlast(ctx, patience)
	defer done()
	return s.c.do(ctx, &call{method: http.MethodDelete, path: lockapi.RouteSessions + "/" + s.id, status: http.StatusNoContent})
}

// patience is how long a release goes on under a context that has ended.
const patience = 5 * time.Second
