package client

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/client/internal/timing"
	"github.com/stoutlock/stout/lockapi"
)

// Internals that the external tests use.

const (
	LateAnswer  = lateAnswer
	LongPoll    = longPoll
	LongestWait = longestWait
	LostTime    = lostTime
	MostPause   = timing.MaxBackoff
	ReleaseTime = releaseTime
	SettleTime  = settleTime
	WaitSlack   = waitSlack
	WakeEvery   = wakeEvery
	WindowSize  = windowSize
)

// The constants of package call.
const (
	FirstLook   = 2 * time.Second
	HedgeAfter  = 300 * time.Millisecond
	LeastLook   = 5 * time.Second
	LookupTime  = 5 * time.Second
	MostAbsence = 30 * time.Second
	MostFound   = 32
	MostPenalty = time.Minute
)

var Sleep = timing.Sleep

// Prefix returns the prefix of the handles of the session's locks.
func (s *Session) Prefix() string { return s.locks.prefix }

// AskAgain repeats the session's pending calls for locks.
func (s *Session) AskAgain() { s.locks.askAgain() }

// Acquisitions returns how many locks the session has, waits for or looks for.
func (s *Session) Acquisitions() int {
	s.locks.mu.Lock()
	defer s.locks.mu.Unlock()
	return len(s.locks.byHandle)
}

// Mutexes returns the mutexes of the hold's session.
func (h *Held) Mutexes() []*sync.Mutex {
	s := h.a.s
	return []*sync.Mutex{&s.lease.mu, &s.locks.mu, &s.keeper.poll.mu, &s.reconciler.mu, &s.lines.mu}
}

// Session returns the hold's session.
func (h *Held) Session() *Session { return h.a.s }

// ReadAt reads a lock at one replica: over one of the client's own connections
// if direct, otherwise through its net/http transport, as streams do.
func (c *Client) ReadAt(ctx context.Context, url string, direct bool) error {
	q := call.Call{Method: http.MethodGet, Path: lockapi.RouteLocks + "/a"}
	if !direct {
		q.StreamType = "text/plain"
	}
	err := c.calls.At(ctx, url, &q)
	if q.Stream != nil {
		err = errors.Join(err, q.Stream.Body.Close())
	}
	return err
}

// Sessions returns how many sessions the limiter counts.
func (c *Client) Sessions() int { return c.limiter.sessions }
